//! `partition-of`, and the partition function against the server's own.

use std::collections::BTreeMap;

use lockstep::group::partitioning::{self, Key};
use lockstep::nats::streams::{self, StreamPlan};

use crate::plant::{self, Plant};

/// The partition into which the server puts each of these subjects.
async fn by_server(plant: &Plant, published: &[String], prefix: &str) -> BTreeMap<String, u32> {
    let client = plant.server.connect().await.unwrap();
    let context = async_nats::jetstream::new(client);
    for subject in published {
        let sent = context
            .publish(subject.clone(), bytes::Bytes::new())
            .await
            .unwrap();
        sent.await.unwrap();
    }
    let pattern = format!("{prefix}.>");
    let stored = streams::subject_counts(&plant.connection, &prefix.to_uppercase(), &pattern).await;
    let stored = stored.unwrap().into_keys().map(|subject| {
        let mut tokens = subject.split('.').skip(1);
        let partition = tokens.next().unwrap().parse().unwrap();
        (tokens.collect::<Vec<_>>().join("."), partition)
    });
    stored.collect()
}

// P6, P7
#[tokio::test]
async fn keys_are_where_a_real_server_puts_them() {
    let plant = Plant::new().await;
    let one = StreamPlan {
        transform: Some((
            "one.*".to_owned(),
            "one.{{partition(12,1)}}.{{wildcard(1)}}".to_owned(),
        )),
        ..StreamPlan::plain("ONE", vec!["one.*".to_owned()])
    };
    let destination = "two.{{partition(12,1,2)}}.{{wildcard(1)}}.{{wildcard(2)}}".to_owned();
    let two = StreamPlan {
        transform: Some(("two.*.*".to_owned(), destination)),
        ..StreamPlan::plain("TWO", vec!["two.*.*".to_owned()])
    };
    for plan in [one, two] {
        streams::create(&plant.connection, &plan).await.unwrap();
    }
    let keys: Vec<String> = (0..500)
        .map(|n: u64| format!("k{}-ü{n}", n.wrapping_mul(2_654_435_761)))
        .collect();
    let published: Vec<String> = keys.iter().map(|k| format!("one.{k}")).collect();
    let server = by_server(&plant, &published, "one").await;
    assert_eq!(server.len(), keys.len());
    for (key, partition) in &server {
        let key: Key = key.parse().unwrap();
        let ours = partitioning::partition_of(key.tokens(), 12);
        assert_eq!(ours.map(|p| p.0), Some(*partition), "{key}");
    }
    let pairs = ["a.b", "ab.c", "a.bc", "customer-42.order-7", "größe.ü"];
    let published: Vec<String> = pairs.iter().map(|k| format!("two.{k}")).collect();
    let server = by_server(&plant, &published, "two").await;
    let known: Vec<u32> = pairs.iter().map(|k| server[*k]).collect();
    assert_eq!(known, [6, 11, 11, 6, 9]);

    let mut words = vec!["partition-of", "--partitions", "12"];
    words.extend(pairs);
    let finished = plant::run(&words, "", &[]).await;
    let expected: String = pairs
        .iter()
        .map(|k| format!("{k}\t{}\n", server[*k]))
        .collect();
    assert_eq!((finished.code, finished.stdout), (Some(0), expected));
}

#[tokio::test]
async fn partition_of_asks_the_group_or_computes_by_itself() {
    let plant = Plant::new().await;
    assert_eq!(plant.ok("partition-of orders c").await, "2\n");
    assert_eq!(
        plant.ok("partition-of default/orders c d").await,
        "c\t2\nd\t3\n"
    );
    // No server is needed for a number.
    let finished = plant::run(&["partition-of", "--partitions", "12", "a.b"], "", &[]).await;
    assert_eq!((finished.code, finished.stdout.as_str()), (Some(0), "6\n"));
    plant
        .fails(
            "partition-of orders a.b",
            2,
            &["does not fit the subject orders.*"],
        )
        .await;
    plant
        .fails("partition-of orders", 2, &["no key is given"])
        .await;
    plant
        .fails("partition-of nobody k", 1, &["there is no group"])
        .await;
    plant
        .fails("partition-of --partitions 3 a..b", 2, &["empty token"])
        .await;
}
