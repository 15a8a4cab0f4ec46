//! Certificates and authorities change under load, and no pod is refused for it.

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
use tokio::sync::watch;

use crate::stage::{Stage, connection, group, pod};

/// A life of months in seconds: an authority is replaced about every 7 s, a certificate every 2 s.
const FAST: Lifetimes = Lifetimes {
    authority: Duration::from_secs(9),
    leaf: Duration::from_secs(3),
    announcement: Duration::from_secs(2),
    look: Duration::from_millis(200),
};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[expect(clippy::too_many_lines, reason = "one story")]
async fn no_pod_is_refused_while_certificates_and_authorities_change() {
    let stage = Stage::without_controller(ApiServer::start().await.unwrap()).await;
    let client = stage.api.client().await.unwrap();
    let (tasks, metrics) = (Tasks::new(), AdmissionMetrics::register(&Metrics::new()));
    let bound = BoundWebhook::bind("127.0.0.1:0".parse().unwrap()).unwrap();
    stage.configure(bound.address().port()).await;
    let certificates = Certificates::default();
    let place = ("default".to_owned(), "tls".to_owned());
    let (following, watching, series) = (certificates.clone(), client.clone(), metrics.clone());
    tasks.spawn("certificates", |stop| {
        following.follow(watching, place, series, stop)
    });
    let leading = Leadership::Leading(clock::now().after(Duration::from_secs(3600)));
    let (_leads, leadership) = watch::channel(leading);
    let keeping = KeeperSettings {
        namespace: "default".to_owned(),
        secret: "tls".to_owned(),
        configuration: "lockstep-injector".to_owned(),
        hosts: vec!["127.0.0.1".to_owned()],
        lifetimes: FAST,
    };
    let keeper = Keeper::new(
        client.clone(),
        Events::new(client.clone(), "c1".to_owned(), &tasks),
        keeping,
    );
    tasks.spawn("keeper", |stop| keeper.run(leadership, stop));
    let defaults = Defaults {
        image: "worker:1".to_owned(),
    };
    let admission = Admission::start(
        client,
        &[],
        (defaults, certificates),
        metrics.clone(),
        &tasks,
    );
    tasks.spawn("webhook", |stop| admission.serve(bound, stop));
    stage.namespace("shop").await;
    stage.apply(&connection("shop", "worker-nats")).await;
    stage.apply(&group("shop", "orders")).await;
    stage.answers("shop").await;

    let authority = async || {
        let path = "jsonpath={.data.ca\\.crt} {.data.tls\\.crt}";
        let text = stage.kubectl(&["get", "secret", "tls", "-o", path]).await;
        let (authorities, leaf) = text.split_once(' ').unwrap();
        (authorities.to_owned(), leaf.to_owned())
    };
    let (mut authorities, mut leaves) = (Vec::new(), Vec::new());
    let until = clock::now().after(Duration::from_secs(120));
    let manifest = pod("shop", "again", &serde_json::json!({}));
    while authorities.len() < 4 || leaves.len() < 6 {
        assert!(
            clock::now() < until,
            "{} authorities, {} leaves",
            authorities.len(),
            leaves.len()
        );
        let tried = stage.try_apply(&manifest, &["--dry-run=server"]).await;
        assert_eq!(tried.code, Some(0), "{}", tried.stderr);
        let (bundle, leaf) = authority().await;
        if authorities.last() != Some(&bundle) {
            authorities.push(bundle);
        }
        if leaves.last() != Some(&leaf) {
            leaves.push(leaf);
        }
    }
    assert!(metrics.count(AdmissionOutcome::Injected) > 5);
    assert_eq!(metrics.count(AdmissionOutcome::Failed), 0);
    tasks.stop().await;
}
