//! Certificates and authorities change under load in both replicas, whichever leads, and no pod is
//! refused for it.

use std::net::TcpStream;
use std::sync::Arc;
use std::time::Duration;

use lockstep::clock;
use lockstep::controller::admission::{
    Admission, BoundWebhook, Certificates, Keeper, KeeperSettings, Lifetimes,
};
use lockstep::controller::injection::Defaults;
use lockstep::k8s::Events;
use lockstep::k8s::lease::Leadership;
use lockstep::metrics::{AdmissionMetrics, AdmissionOutcome, Metrics};
use lockstep::tasks::Tasks;
use lockstep_e2e::cluster::ApiServer;
use lockstep_e2e::until;
use rustls::crypto::ring;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, ClientConnection, RootCertStore};
use tokio::sync::watch;

use crate::stage::{SOON, Stage, pod};

/// A life of months in seconds: an authority is replaced about every 7 s, a certificate every 2 s.
const FAST: Lifetimes = Lifetimes {
    authority: Duration::from_secs(9),
    leaf: Duration::from_secs(3),
    announcement: Duration::from_secs(2),
    look: Duration::from_millis(200),
};

/// One replica of the controller, as far as its webhook goes.
struct Replica {
    tasks: Tasks,
    metrics: AdmissionMetrics,
    port: u16,
    leads: watch::Sender<Leadership>,
}

/// What the Secret holds: authorities, and the certificate.
#[derive(Clone, PartialEq)]
struct Held {
    authorities: String,
    leaf: String,
}

// === impl Replica ===

impl Replica {
    async fn start(stage: &Stage, bound: BoundWebhook) -> Self {
        let client = stage.api.client().await.unwrap();
        let (tasks, metrics) = (Tasks::new(), AdmissionMetrics::register(&Metrics::new()));
        let port = bound.address().port();
        let certificates = Certificates::default();
        let place = ("default".to_owned(), "tls".to_owned());
        let (following, watching, series) = (certificates.clone(), client.clone(), metrics.clone());
        tasks.spawn("certificates", |stop| {
            following.follow(watching, place, series, stop)
        });
        let (leads, leadership) = watch::channel(Leadership::Following(None));
        let keeping = KeeperSettings {
            namespace: "default".to_owned(),
            secret: "tls".to_owned(),
            configuration: "lockstep-injector".to_owned(),
            hosts: vec!["127.0.0.1".to_owned()],
            lifetimes: FAST,
        };
        let events = Events::new(client.clone(), format!("c{port}"), &tasks);
        let keeper = Keeper::new(client.clone(), events, keeping);
        tasks.spawn("keeper", |stop| keeper.run(leadership, stop));
        let image = "worker:1".to_owned();
        let answering = (Defaults { image }, certificates);
        let admission = Admission::start(client, &[], answering, metrics.clone(), &tasks);
        tasks.spawn("webhook", |stop| admission.serve(bound, stop));
        Self {
            tasks,
            metrics,
            port,
            leads,
        }
    }

    fn leads(&self) {
        let leading = Leadership::Leading(clock::now().after(Duration::from_secs(3600)));
        self.leads.send_replace(leading);
    }

    fn follows(&self) {
        self.leads.send_replace(Leadership::Following(None));
    }

    /// Waits until a new connection is shown the certificate that is in the Secret.
    async fn serves_what_is_held(&self, stage: &Stage) {
        let served = until("the Secret's certificate", SOON, async || {
            let held = held(stage).await;
            let (port, authorities) = (self.port, held.authorities.clone());
            let shown = tokio::task::spawn_blocking(move || shown(port, &authorities));
            let shown = shown.await.unwrap()?;
            let leaf = CertificateDer::from_pem_slice(held.leaf.as_bytes()).unwrap();
            if shown == leaf {
                Ok(())
            } else {
                Err(format!("{} shows another one", self.port))
            }
        });
        served.await.unwrap();
    }
}

/// The certificate that a new connection is shown, if one of these authorities signed it.
fn shown(port: u16, authorities: &str) -> Result<CertificateDer<'static>, String> {
    let text = |error: rustls::Error| error.to_string();
    let mut roots = RootCertStore::empty();
    for authority in CertificateDer::pem_slice_iter(authorities.as_bytes()) {
        roots.add(authority.unwrap()).map_err(text)?;
    }
    let config = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .map_err(text)?
        .with_root_certificates(roots)
        .with_no_client_auth();
    let name = ServerName::try_from("127.0.0.1").unwrap();
    let mut session = ClientConnection::new(Arc::new(config), name).map_err(text)?;
    let mut socket = TcpStream::connect(("127.0.0.1", port)).map_err(|e| e.to_string())?;
    while session.is_handshaking() {
        session
            .complete_io(&mut socket)
            .map_err(|e| e.to_string())?;
    }
    let chain = session.peer_certificates().unwrap_or_default();
    Ok(chain[0].clone().into_owned())
}

async fn held(stage: &Stage) -> Held {
    let text = stage.kubectl(&["get", "secret", "tls", "-o", "json"]).await;
    let secret: serde_json::Value = serde_json::from_str(&text).unwrap();
    let of = |name: &str| {
        let encoded =
            serde_json::from_value::<k8s_openapi::ByteString>(secret["data"][name].clone());
        String::from_utf8(encoded.unwrap().0).unwrap()
    };
    Held {
        authorities: of("ca.crt"),
        leaf: of("tls.crt"),
    }
}

/// Makes pods, in the eyes of the API server, until so many authorities and certificates were seen.
async fn no_pod_is_refused(stage: &Stage, replicas: &[Replica], changes: (usize, usize)) {
    let (mut authorities, mut leaves) = (Vec::new(), Vec::new());
    let end = clock::now().after(Duration::from_secs(120));
    let manifest = pod("shop", "again", &serde_json::json!({}));
    while authorities.len() < changes.0 || leaves.len() < changes.1 {
        let seen = format!("{} authorities, {} leaves", authorities.len(), leaves.len());
        assert!(clock::now() < end, "{seen}");
        let tried = stage.try_apply(&manifest, &["--dry-run=server"]).await;
        assert_eq!(tried.code, Some(0), "{}", tried.stderr);
        let Held {
            authorities: bundle,
            leaf,
        } = held(stage).await;
        if authorities.last() != Some(&bundle) {
            authorities.push(bundle);
        }
        if leaves.last() != Some(&leaf) {
            leaves.push(leaf);
            for replica in replicas {
                replica.serves_what_is_held(stage).await;
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_pod_is_refused_while_certificates_and_authorities_change() {
    let stage = Stage::without_controller(ApiServer::start().await.unwrap()).await;
    let any = || BoundWebhook::bind("127.0.0.1:0".parse().unwrap()).unwrap();
    let (one, two) = (any(), any());
    // A pod is shown to both; the second finds that it has its worker.
    stage
        .configure(&[one.address().port(), two.address().port()])
        .await;
    let replicas = [
        Replica::start(&stage, one).await,
        Replica::start(&stage, two).await,
    ];
    replicas[0].leads();
    stage.namespace_with_group("shop").await;
    stage.answers("shop").await;
    no_pod_is_refused(&stage, &replicas, (3, 5)).await;
    // Another one leads: it renews what the former made.
    replicas[0].follows();
    replicas[1].leads();
    no_pod_is_refused(&stage, &replicas, (3, 5)).await;
    let asked = |outcome| replicas.each_ref().map(|r| r.metrics.count(outcome));
    assert!(asked(AdmissionOutcome::Injected)[0] > 5);
    assert!(asked(AdmissionOutcome::Done)[1] > 5);
    assert_eq!(asked(AdmissionOutcome::Failed), [0, 0]);
    for replica in replicas {
        replica.tasks.stop().await;
    }
}
