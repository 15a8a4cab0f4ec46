//! The Lease: one leader, a hand-over when it falls silent, at once when it says good-bye, and never
//! a comparison of clocks.

use std::time::Duration;

use k8s_openapi::api::coordination::v1::{Lease, LeaseSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::MicroTime;
use kube::Client;
use kube::api::{Api, ObjectMeta, PostParams};
use kube::config::{KubeConfigOptions, Kubeconfig};
use lockstep::clock;
use lockstep::group::Timestamp;
use lockstep::k8s::lease::{Elector, Leadership, LeaseSettings};
use lockstep::tasks::Tasks;
use lockstep_e2e::cluster::ApiServer;
use lockstep_e2e::proxy::{Mode, Proxy};
use lockstep_e2e::until;
use tokio::sync::watch;

/// Shorter than in production, and whole seconds, as the Lease counts.
const DURATION: Duration = Duration::from_secs(6);

/// Generous: for a loaded machine.
const SOON: Duration = Duration::from_secs(60);

/// A candidate that runs.
struct Candidate {
    leadership: watch::Receiver<Leadership>,
    tasks: Tasks,
}

// === impl Candidate ===

impl Candidate {
    fn start(client: Client, identity: &str) -> Self {
        let settings = LeaseSettings {
            identity: identity.to_owned(),
            ..LeaseSettings::lasting(DURATION)
        };
        let elector = Elector::new(client, settings);
        let leadership = elector.leadership();
        let tasks = Tasks::new();
        tasks.spawn_vital("election", |stop| elector.run(stop));
        Self { leadership, tasks }
    }

    fn leads(&self) -> bool {
        self.leadership.borrow().leads(clock::now())
    }

    /// Waits until it leads; says when that was noticed.
    async fn elected(&self) -> Timestamp {
        let led = until("an election", SOON, async || {
            let seen = self.leadership.borrow().clone();
            if seen.leads(clock::now()) {
                Ok(clock::now())
            } else {
                Err(format!("{seen:?}"))
            }
        });
        led.await.unwrap()
    }

    async fn follows(&self, leader: &str) {
        let followed = until("a follower", SOON, async || {
            let seen = self.leadership.borrow().clone();
            let wanted = Leadership::Following(Some(leader.to_owned()));
            if seen == wanted {
                Ok(())
            } else {
                Err(format!("{seen:?}"))
            }
        });
        followed.await.unwrap();
    }
}

/// A client whose way to the API server leads through a proxy.
async fn client_through(server: &ApiServer, proxy: &Proxy) -> Client {
    let file = Kubeconfig::read_from(server.kubeconfig()).unwrap();
    let options = KubeConfigOptions::default();
    let mut config = kube::Config::from_custom_kubeconfig(file, &options)
        .await
        .unwrap();
    let port = proxy
        .url()
        .rsplit(':')
        .next()
        .unwrap()
        .trim_end_matches('/')
        .to_owned();
    config.cluster_url = format!("https://127.0.0.1:{port}").parse().unwrap();
    Client::try_from(config).unwrap()
}

async fn proxied(server: &ApiServer) -> (Proxy, Client) {
    let target = server.url().trim_start_matches("https://").to_owned();
    let proxy = Proxy::start(target).await.unwrap();
    let client = client_through(server, &proxy).await;
    (proxy, client)
}

async fn lease(client: &Client) -> Lease {
    let leases: Api<Lease> = Api::default_namespaced(client.clone());
    leases.get("lockstep-controller").await.unwrap()
}

#[tokio::test]
async fn one_leads_and_a_clean_end_hands_over_at_once() {
    let server = ApiServer::start().await.unwrap();
    let client = server.client().await.unwrap();
    let first = Candidate::start(client.clone(), "first");
    first.elected().await;
    let second = Candidate::start(client.clone(), "second");
    second.follows("first").await;
    assert!(!second.leads());
    let held = lease(&client).await.spec.unwrap();
    assert_eq!(held.holder_identity.as_deref(), Some("first"));
    assert_eq!(
        (held.lease_duration_seconds, held.lease_transitions),
        (Some(6), Some(1))
    );
    let stopping = clock::now();
    first.tasks.stop().await;
    assert!(!first.leads());
    let elected = second.elected().await;
    let took = elected.since(stopping);
    // Without the hand-over the second would have waited for the whole duration.
    assert!(took < DURATION, "it took {took:?}");
    let held = lease(&client).await.spec.unwrap();
    assert_eq!(held.holder_identity.as_deref(), Some("second"));
    assert_eq!(held.lease_transitions, Some(2));
    second.tasks.stop().await;
}

#[tokio::test]
async fn a_leader_that_is_cut_off_knows_it_before_another_leads() {
    let server = ApiServer::start().await.unwrap();
    let (proxy, through) = proxied(&server).await;
    let first = Candidate::start(through, "first");
    first.elected().await;
    let second = Candidate::start(server.client().await.unwrap(), "second");
    second.follows("first").await;
    // Its renewals are neither refused nor answered: the connection is dead and looks alive.
    proxy.set(Mode::Freeze);
    let mut both = 0;
    let taken = until("the second's election", SOON, async || {
        if first.leads() && second.leads() {
            both += 1;
        }
        if second.leads() {
            Ok(())
        } else {
            Err("it follows")
        }
    });
    taken.await.unwrap();
    assert_eq!(both, 0, "two led at once");
    assert!(!first.leads());
    // When it is back it follows, and takes nothing away.
    proxy.set(Mode::Pass);
    first.follows("second").await;
    assert!(second.leads());
    first.tasks.stop().await;
    assert!(second.leads(), "only the holder gives the Lease back");
    second.tasks.stop().await;
}

#[tokio::test]
async fn a_leader_that_is_killed_is_waited_for_and_no_longer_than_its_duration() {
    let server = ApiServer::start().await.unwrap();
    let client = server.client().await.unwrap();
    let (proxy, through) = proxied(&server).await;
    let first = Candidate::start(through, "first");
    first.elected().await;
    let second = Candidate::start(client.clone(), "second");
    second.follows("first").await;
    // As after SIGKILL: not one word more.
    proxy.set(Mode::Refuse);
    proxy.cut();
    let cut = clock::now();
    let took = second.elected().await.since(cut);
    // It was renewed at most a retry before the cut, and may be looked at a retry late.
    let settings = LeaseSettings::lasting(DURATION);
    assert!(
        took + settings.retry * 2 >= DURATION,
        "it took only {took:?}"
    );
    assert!(
        took <= DURATION + settings.retry * 2 + Duration::from_secs(10),
        "it took {took:?}"
    );
    first.tasks.begin_to_stop();
    second.tasks.stop().await;
}

/// A Lease that a machine with a wrong clock holds.
async fn held_by_other(client: &Client, renewed: &str) {
    let leases: Api<Lease> = Api::default_namespaced(client.clone());
    let time = MicroTime(renewed.parse().unwrap());
    let lease = Lease {
        metadata: ObjectMeta {
            name: Some("lockstep-controller".to_owned()),
            ..ObjectMeta::default()
        },
        spec: Some(LeaseSpec {
            holder_identity: Some("other".to_owned()),
            lease_duration_seconds: Some(6),
            acquire_time: Some(time.clone()),
            renew_time: Some(time),
            ..LeaseSpec::default()
        }),
    };
    leases.create(&PostParams::default(), &lease).await.unwrap();
}

#[tokio::test]
async fn nobodys_wall_clock_is_compared() {
    for renewed in ["2001-01-01T00:00:00.000000Z", "2099-01-01T00:00:00.000000Z"] {
        let server = ApiServer::start().await.unwrap();
        let client = server.client().await.unwrap();
        held_by_other(&client, renewed).await;
        let started = clock::now();
        let me = Candidate::start(client, "me");
        let took = me.elected().await.since(started);
        // Neither is a clock that is behind a reason to take the Lease, nor one ahead to leave it.
        assert!(took >= DURATION, "renewed {renewed}: taken after {took:?}");
        me.tasks.stop().await;
    }
}

#[tokio::test]
async fn of_many_candidates_at_once_one_is_elected() {
    let server = ApiServer::start().await.unwrap();
    let client = server.client().await.unwrap();
    let names: Vec<String> = (0..8).map(|n| format!("candidate-{n}")).collect();
    let all: Vec<Candidate> = names
        .iter()
        .map(|name| Candidate::start(client.clone(), name))
        .collect();
    let settled = until("an election", SOON, async || {
        let leaders = all.iter().filter(|candidate| candidate.leads()).count();
        assert!(leaders <= 1, "{leaders} lead");
        let known = |c: &Candidate| !matches!(&*c.leadership.borrow(), Leadership::Following(None));
        if leaders == 1 && all.iter().all(known) {
            Ok(())
        } else {
            Err("not settled")
        }
    });
    settled.await.unwrap();
    let holder = lease(&client).await.spec.unwrap().holder_identity.unwrap();
    let at = names.iter().position(|name| *name == holder).unwrap();
    assert!(all[at].leads());
    for candidate in &all {
        candidate.tasks.stop().await;
    }
}
