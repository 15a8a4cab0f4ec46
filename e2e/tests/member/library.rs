//! The library: readers, a coordinator and an assignor of the user's own, in one program.

use std::time::Duration;

use lockstep::coordinator::Settings;
use lockstep::coordinator::provision::{Missing, Terms};
use lockstep::crd;
use lockstep::group::Partition;
use lockstep::group::assignor::{Assignor, Candidate, PartitionInput, Previous, Target};
use lockstep::metrics::{CoordinatorMetrics, Metrics};
use lockstep::nats::{Connection, Options, Role};
use lockstep::tasks::Tasks;
use lockstep::worker::{Publish, PublishTo};
use lockstep::{Coordinator, Reader, ReaderOptions};
use lockstep_e2e::{NatsServer, until};

use super::group::SOON;

const MANIFEST: &str = r#"apiVersion: lockstep.dev/v1alpha1
kind: ConsumerGroup
metadata:
  name: orders
spec:
  source:
    streams:
      pattern: "orders-{partition}"
      create: {}
  partitioning:
    partitions: 4
  membership:
    initialRebalanceDelay: 300ms
    rebalanceDelay: 200ms
"#;

/// Everything to the member with the smallest id; the others are spares.
#[derive(Debug)]
struct ActivePassive;

impl Assignor for ActivePassive {
    fn name(&self) -> &'static str {
        "ActivePassive"
    }

    fn assign(&self, members: &[Candidate], partitions: &[PartitionInput], _: &Previous) -> Target {
        let Some(active) = members.iter().min_by_key(|m| &m.id) else {
            return Target::new();
        };
        let to = |p: &PartitionInput| (p.partition, active.incarnation.clone());
        partitions.iter().map(to).collect()
    }
}

async fn coordinate(server: &NatsServer, tasks: &Tasks) {
    let groups = crd::read_groups("orders.yaml", MANIFEST).unwrap();
    let options = Options::for_url(server.url());
    let connection = Connection::connect(&options, &Role::Coordinator, "coordinator")
        .await
        .unwrap();
    let settings = Settings {
        id: "c".to_owned(),
        priority: 0,
        session_timeout: Duration::from_secs(5),
        terms: Terms::standalone("lockstep", Missing::Make),
        elected: false,
    };
    let metrics = CoordinatorMetrics::register(&Metrics::new());
    let coordinator =
        Coordinator::new(settings, connection, &groups, metrics).with_assignor(ActivePassive);
    tasks.spawn("coordinator", |stop| async move {
        coordinator.run(&groups, stop).await.unwrap();
    });
}

#[tokio::test]
async fn readers_share_a_group_as_the_users_own_assignor_says() {
    let server = NatsServer::start().await.unwrap();
    let tasks = Tasks::new();
    coordinate(&server, &tasks).await;
    let options = |id: &str| {
        let options = Options::for_url(server.url());
        ReaderOptions::new(options, "orders".parse().unwrap(), id).resolve_keys(
            |key, partitions| {
                let number: u32 = key.parse().unwrap_or(0);
                Partition(number % partitions)
            },
        )
    };
    let (b, a) = tokio::join!(Reader::connect(options("b")), Reader::connect(options("a")));
    let (b, a) = (b.unwrap(), a.unwrap());
    until("everything with a", SOON, async || {
        let (a, b) = (a.status().await.unwrap(), b.status().await.unwrap());
        match (a.partitions.len(), b.partitions.len()) {
            (4, 0) => Ok(()),
            other => Err(format!("{other:?}")),
        }
    })
    .await
    .unwrap();

    // Keys go where the program's own resolver says.
    for key in ["5", "6"] {
        let message = Publish {
            to: PublishTo::Key(key.to_owned()),
            payload: key.to_owned().into(),
            headers: Vec::new(),
            id: None,
            derived_from: None,
        };
        let published = a.publish(message).await.unwrap();
        assert_eq!(
            published.partition,
            Some(Partition(key.parse::<u32>().unwrap() % 4))
        );
    }
    let mut got = Vec::new();
    while got.len() < 2 {
        let messages = a.fetch(10, SOON).await.unwrap();
        a.commit(&messages).await.unwrap();
        got.extend(messages.iter().map(|m| (m.partition.0, m.key())));
    }
    got.sort();
    assert_eq!(got, [(1, "5".to_owned()), (2, "6".to_owned())]);

    // When it leaves, the spare takes over, and nothing is seen twice.
    let drained = a.close(SOON).await.unwrap();
    assert_eq!((drained.clean, drained.unclean), (4, 0));
    until("everything with b", SOON, async || {
        match b.status().await.unwrap().partitions.len() {
            4 => Ok(()),
            other => Err(other),
        }
    })
    .await
    .unwrap();
    assert!(b.fetch(10, Duration::ZERO).await.unwrap().is_empty());
    b.close(SOON).await.unwrap();
    tasks.stop().await;
}
