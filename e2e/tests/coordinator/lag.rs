//! What is left to commit, and how old it is: also of a group without members.

use std::collections::BTreeMap;
use std::time::Duration;

use futures_util::StreamExt;
use lockstep::coordinator::provision::Missing;
use lockstep::coordinator::{Details, Lag};
use lockstep::group::partitioning::partition_of;
use lockstep::group::{GroupDocument, Held, HoldState, Partition, Sequence};
use lockstep::nats::{Options, streams};
use lockstep::{Reader, ReaderOptions};
use lockstep_e2e::until;

use super::stage::{Member, Running, SOON, Stage, group, manifest};

async fn shows(running: &Running, what: &str, holds: impl Fn(&Details) -> bool) -> Details {
    let seen = until(what, SOON, async || {
        let details = running.status("default/orders").details;
        match details {
            Some(details) if holds(&details) => Ok(details),
            other => Err(format!("{other:?}")),
        }
    });
    seen.await.unwrap()
}

async fn has_left(running: &Running, total: u64) -> Lag {
    let what = format!("{total} messages left");
    let details = shows(running, &what, |d| d.lag.is_some_and(|l| l.total == total));
    details.await.lag.unwrap()
}

/// The value of a series of this group; none if it is not shown.
fn metric(running: &Running, name: &str, labels: &str) -> Option<f64> {
    let text = running.metrics.render().unwrap();
    let series = format!("lockstep_{name}{{namespace=\"default\",group=\"orders\"{labels}}} ");
    let line = text.lines().find_map(|line| line.strip_prefix(&series))?;
    Some(line.parse().unwrap())
}

async fn publish(stage: &Stage, keys: &[&str], count: usize) {
    for key in keys {
        stage.publish(&format!("orders.{key}"), count).await;
    }
}

#[tokio::test]
async fn without_members_what_is_left_is_counted_in_the_stream() {
    let stage = Stage::new().await;
    let running = stage.with_group("c1", &manifest("orders")).await;
    has_left(&running, 0).await;
    assert_eq!(metric(&running, "group_lag", ""), Some(0.0));
    let keys = ["a", "b", "c", "d", "e"];
    publish(&stage, &keys, 3).await;
    let mut by_partition = BTreeMap::<Partition, u64>::new();
    for key in keys {
        *by_partition
            .entry(partition_of([key], 4).unwrap())
            .or_default() += 3;
    }
    let lag = has_left(&running, 15).await;
    assert_eq!(lag.max_partition, *by_partition.values().max().unwrap());
    assert_eq!(metric(&running, "group_lag", ""), Some(15.0));
    for partition in Partition::all(4) {
        let left = by_partition
            .get(&partition)
            .copied()
            .unwrap_or(0)
            .to_string();
        let labels = format!(",partition=\"{partition}\"");
        let shown = metric(&running, "partition_lag", &labels);
        assert_eq!(shown.map(|n| n.to_string()), Some(left), "{partition}");
    }

    // A member reads some of it and leaves: the rest lies between messages that are done.
    let options = Options::for_url(stage.server.url());
    let options = ReaderOptions::new(options, "orders".parse().unwrap(), "r");
    let reader = Reader::connect(options).await.unwrap();
    let mut done = 0;
    while done < 7 {
        let messages = reader.fetch(7 - done, SOON).await.unwrap();
        reader.commit(&messages).await.unwrap();
        done += u32::try_from(messages.len()).unwrap();
    }
    reader.close(SOON).await.unwrap();
    shows(&running, "no members", |d| d.members.is_empty()).await;
    has_left(&running, 8).await;
    publish(&stage, &["a", "d"], 2).await;
    has_left(&running, 12).await;
    let counting = until(
        "no consumer left behind",
        SOON,
        async || match streams::info(&stage.connection, "orders")
            .await
            .unwrap()
            .consumers
        {
            0 => Ok(()),
            some => Err(some),
        },
    );
    counting.await.unwrap();
    running.stop().await.unwrap();
}

#[tokio::test]
async fn a_look_at_a_group_at_rest_asks_how_its_stream_is_and_nothing_else() {
    let stage = Stage::new().await;
    let running = stage.with_group("c1", &manifest("orders")).await;
    publish(&stage, &["a", "b", "c"], 3).await;
    has_left(&running, 9).await;
    let client = stage.server.connect().await.unwrap();
    let mut asked = client.subscribe("$JS.API.>").await.unwrap();
    let (mut looks, mut beside) = (0, Vec::new());
    while looks < 2 {
        let next = tokio::time::timeout(SOON, asked.next()).await;
        let subject = next.unwrap().unwrap().subject.to_string();
        if subject == "$JS.API.STREAM.INFO.orders" {
            looks += 1;
        } else if subject.contains("MSG.GET") || subject.contains("CONSUMER.CREATE.orders") {
            beside.push(subject);
        }
    }
    assert_eq!(beside, [""; 0]);
    running.stop().await.unwrap();
}

/// A member that owns every partition and says so.
async fn owner_of_all(stage: &Stage) -> Member {
    let bucket = stage.bucket("orders").await;
    let id = stage.meta("orders").await.bucket;
    let member = Member::start(&bucket, &id, "m");
    let owns_all = |d: &GroupDocument| member.owns(d).len() == 4;
    let document = stage.sees("orders", "an owner", owns_all).await;
    member.says(|says| {
        let all = Partition::all(4).zip(&document.partitions);
        let held = all.map(|(partition, a)| Held {
            partition,
            epoch: a.epoch,
            state: HoldState::Feeding,
            position: Sequence(2),
            committed: Sequence(2),
            in_flight: 0,
            pending: Some(0),
            head_attempts: 0,
        });
        says.held = held.collect();
    });
    member
}

#[tokio::test]
async fn the_age_of_the_oldest_message_that_is_left_is_its_age() {
    let stage = Stage::new().await;
    let running = stage.with_group("c1", &manifest("orders")).await;
    let nothing = shows(&running, "nothing left", |d| d.oldest.is_some()).await;
    assert_eq!(nothing.oldest, Some(Duration::ZERO));
    publish(&stage, &["a"], 1).await;
    let first = streams::message_at(&stage.connection, "orders", Sequence(1)).await;
    let first = first.unwrap().unwrap().timestamp;
    let old = |d: &Details| d.oldest.is_some_and(|age| age >= Duration::from_secs(5));
    let old = shows(&running, "an old message", old).await.oldest.unwrap();
    let now = jiff::Timestamp::now().as_nanosecond();
    let age = Duration::from_nanos(u64::try_from(now - i128::from(first.0)).unwrap());
    assert!(old <= age, "{old:?} of {age:?}");
    let shown = metric(&running, "group_lag_seconds", "").unwrap();
    assert!(shown >= 5.0, "{shown}");

    // An owner says that the old one is committed, and that younger ones are left.
    let member = owner_of_all(&stage).await;
    let said = until("a younger message", SOON * 2, async || {
        publish(&stage, &["b"], 1).await;
        let last = streams::info(&stage.connection, "orders")
            .await
            .unwrap()
            .last;
        member.says(|says| {
            for held in &mut says.held {
                held.committed = last;
                let has_it = partition_of(["b"], 4) == Some(held.partition);
                held.pending = Some(u64::from(has_it));
            }
        });
        let details = running.status("default/orders").details.unwrap();
        let left = details.lag.is_some_and(|lag| lag.total == 1);
        match details.oldest {
            Some(age) if left && age < old => Ok(()),
            _ => Err(format!("{details:?}")),
        }
    });
    said.await.unwrap();

    // It no longer says how much is left of one partition: that is unknown, not nothing.
    member.says(|says| says.held[0].pending = None);
    let unknown = shows(&running, "an unknown lag", |d| d.lag.is_none()).await;
    assert_eq!(unknown.oldest, None);
    assert_eq!(metric(&running, "group_lag", ""), None);
    assert_eq!(metric(&running, "group_lag_seconds", ""), None);
    member.says(|says| {
        for held in &mut says.held {
            held.pending = Some(0);
        }
    });
    let done = shows(&running, "nothing left", |d| d.lag == Some(Lag::default())).await;
    assert_eq!(done.oldest, Some(Duration::ZERO));
    running.stop().await.unwrap();
}

#[tokio::test]
async fn what_is_left_of_another_stream_than_the_offsets_are_of_is_unknown() {
    let stage = Stage::new().await;
    let running = stage.with_group("c1", &manifest("orders")).await;
    publish(&stage, &["a"], 2).await;
    has_left(&running, 2).await;
    let client = stage.server.connect().await.unwrap();
    let context = async_nats::jetstream::new(client);
    context.delete_stream("orders").await.unwrap();
    let unknown = |d: &Details| d.lag.is_none() && d.oldest.is_none();
    shows(&running, "an unknown lag", unknown).await;
    assert_eq!(metric(&running, "group_lag", ""), None);
    running.stop().await.unwrap();
    // Made anew: its sequences say nothing of the offsets.
    let running = stage
        .start("c2", Missing::Make, &[group(&manifest("orders"))])
        .await;
    running.coordinates("default/orders").await;
    publish(&stage, &["a"], 5).await;
    let details = shows(&running, "details", |d| d.partitions == 4).await;
    assert_eq!(details.lag, None);
    running.stop().await.unwrap();
}

// P8a
#[tokio::test]
async fn of_a_derived_stream_age_and_number_are_those_of_the_origin() {
    let stage = Stage::new().await;
    let client = stage.server.connect().await.unwrap();
    let context = async_nats::jetstream::new(client);
    let origin = async_nats::jetstream::stream::Config {
        name: "OLD".to_owned(),
        subjects: vec!["old.*".to_owned()],
        ..Default::default()
    };
    context.create_stream(origin).await.unwrap();
    stage.publish("old.a", 3).await;
    let first = streams::message_at(&stage.connection, "OLD", Sequence(1)).await;
    let first = first.unwrap().unwrap().timestamp;
    let age = || {
        let now = jiff::Timestamp::now().as_nanosecond();
        Duration::from_nanos(u64::try_from(now - i128::from(first.0)).unwrap())
    };
    until("the message to be old", SOON, async || {
        if age() > Duration::from_secs(3) {
            Ok(())
        } else {
            Err(format!("{:?}", age()))
        }
    })
    .await
    .unwrap();
    let yaml = manifest("orders").replace(
        "    stream:\n      name: orders\n      create:\n        subjects: [\"orders.*\"]",
        "    derived: {stream: OLD, subjects: [\"old.*\"]}",
    );
    let running = stage.with_group("c1", &yaml).await;
    has_left(&running, 3).await;
    let details = shows(&running, "an age", |d| {
        d.oldest.is_some_and(|age| !age.is_zero())
    })
    .await;
    // It was taken over a moment ago.
    assert!(
        details.oldest.unwrap() >= Duration::from_secs(3),
        "{details:?}"
    );
    assert_eq!(metric(&running, "group_source_lag", ""), Some(0.0));
    context.delete_stream("OLD").await.unwrap();
    let unknown = shows(&running, "an unknown lag", |d| d.lag.is_none()).await;
    assert_eq!(unknown.oldest, None);
    assert_eq!(metric(&running, "group_source_lag", ""), None);
    running.stop().await.unwrap();
}
