//! What a manifest may change, and where a group begins.

use std::time::Duration;

use lockstep::coordinator::provision::Missing;
use lockstep::group::MetaGeneration;
use lockstep_e2e::proxy::{Mode, Proxy};
use lockstep_e2e::{process, until};

use super::stage::{SOON, Stage, group, manifest, with};

#[tokio::test]
async fn a_changed_setting_is_the_next_generation() {
    // P15
    let stage = Stage::new().await;
    let first = stage.with_group("c1", &manifest("orders")).await;
    assert_eq!(stage.meta("orders").await.generation, MetaGeneration(1));
    first.stop().await.unwrap();
    let again = stage.with_group("c2", &manifest("orders")).await;
    assert_eq!(
        stage.meta("orders").await.generation,
        MetaGeneration(1),
        "nothing changed"
    );
    again.stop().await.unwrap();
    let changed = with("orders", "  delivery: {maxInFlight: 7}\n");
    let third = stage.start("c3", Missing::Refuse, &[group(&changed)]).await;
    third.coordinates("default/orders").await;
    let meta = stage.meta("orders").await;
    assert_eq!(
        (meta.generation, meta.delivery.max_in_flight),
        (MetaGeneration(2), 7)
    );
    stage
        .sees("orders", "the generation", |d| {
            d.meta_generation == meta.generation
        })
        .await;
    third.stop().await.unwrap();
}

#[tokio::test]
async fn what_cannot_change_is_refused_with_both_values_and_exit_code_2() {
    // P5
    let stage = Stage::new().await;
    let first = stage.with_group("c1", &manifest("orders")).await;
    first.stop().await.unwrap();
    let bucket = stage.bucket("orders").await;
    let last = bucket.look().await.unwrap().last;
    let folder = tempfile::tempdir().unwrap();
    let changed = folder.path().join("changed.yaml");
    let text = manifest("orders").replace("partitions: 4", "partitions: 8");
    std::fs::write(&changed, text).unwrap();
    let other = folder.path().join("other.yaml");
    std::fs::write(&other, manifest("other")).unwrap();
    let (url, changed) = (stage.server.url(), changed.display().to_string());
    let other = other.display().to_string();
    let arguments = [
        "coordinator",
        "--create",
        "--nats-url",
        &url,
        &other,
        &changed,
    ];
    let ended = process::run_lockstep(&arguments).await.unwrap();
    assert_eq!(ended.code, Some(2), "{}", ended.stderr);
    let line = ended.stderr.lines().last().unwrap_or_default();
    assert!(line.contains("ImmutableMismatch"), "{line}");
    assert!(
        line.contains("4 partitions") && line.contains("8 partitions"),
        "{line}"
    );
    assert_eq!(
        bucket.look().await.unwrap().last,
        last,
        "something was written"
    );
    let made = lockstep::nats::Bucket::open(&stage.connection, "lockstep_default_other").await;
    assert!(made.is_err(), "the other group was made all the same");
}

#[tokio::test]
async fn a_stream_of_another_shape_is_refused() {
    let stage = Stage::new().await;
    let first = stage.with_group("c1", &manifest("orders")).await;
    first.stop().await.unwrap();
    let other = manifest("orders").replace("name: orders\nspec", "name: second\nspec");
    let other = other.replace("partitions: 4", "partitions: 8");
    let refused = stage.start("c2", Missing::Make, &[group(&other)]).await;
    let error = refused.refusal().await.to_string();
    assert!(error.starts_with("ImmutableMismatch"), "{error}");
    assert!(
        error.contains("partition(4,1)") && error.contains("partition(8,1)"),
        "{error}"
    );
}

#[tokio::test]
async fn a_stream_that_delivery_would_empty_is_refused() {
    // P8
    let stage = Stage::new().await;
    let client = stage.server.connect().await.unwrap();
    let context = async_nats::jetstream::new(client);
    let config = async_nats::jetstream::stream::Config {
        name: "orders".to_owned(),
        subjects: vec!["orders.>".to_owned()],
        retention: async_nats::jetstream::stream::RetentionPolicy::Interest,
        ..Default::default()
    };
    context.create_stream(config).await.unwrap();
    let yaml = manifest("orders")
        .replace(
            "create:\n        subjects: [\"orders.*\"]",
            "subjectPattern: orders.{partition}.*",
        )
        .replace("    keyTokens: [1]\n", "");
    let refused = stage.start("c1", Missing::Make, &[group(&yaml)]).await;
    let error = refused.refusal().await.to_string();
    assert!(error.starts_with("UnsupportedRetention"), "{error}");
}

#[tokio::test]
async fn a_pause_by_hand_survives_a_restart_with_the_manifest() {
    // P127
    let stage = Stage::new().await;
    let first = stage.with_group("c1", &manifest("orders")).await;
    first.stop().await.unwrap();
    let url = stage.server.url();
    let paused = [
        "group",
        "pause",
        "orders",
        "--partitions",
        "2",
        "--nats-url",
        &url,
    ];
    let ended = process::run_lockstep(&paused).await.unwrap();
    assert_eq!(ended.code, Some(0), "{}", ended.stderr);
    let second = stage.with_group("c2", &manifest("orders")).await;
    let meta = stage.meta("orders").await;
    assert!(
        meta.is_paused(lockstep::group::Partition(2)),
        "{:?}",
        meta.pause
    );
    second.stop().await.unwrap();
}

#[tokio::test]
async fn start_positions_are_resolved_once_for_all_partitions() {
    // P86 P88
    let stage = Stage::new().await;
    for (name, more, expected) in [
        ("earliest", "  startFrom: {policy: Earliest}\n", 1),
        ("latest", "  startFrom: {policy: Latest}\n", 6),
        (
            "sequence",
            "  startFrom: {policy: Sequence, sequence: 3}\n",
            3,
        ),
        (
            "duration",
            "  startFrom: {policy: Duration, duration: 1h}\n",
            1,
        ),
    ] {
        let yaml =
            with(name, more).replace("    stream:\n      name: ", "    stream:\n      name: S");
        let group = group(&yaml);
        make_stream(&stage, name).await;
        stage.publish(&format!("{name}.a"), 5).await;
        let running = stage.start(name, Missing::Make, &[group]).await;
        running.coordinates(&format!("default/{name}")).await;
        stage.sees(name, "the seed", |d| d.seeded).await;
        for partition in 0..4 {
            let record = stage.offset(name, partition).await;
            assert_eq!(record.next_seq.0, expected, "{name}, partition {partition}");
            assert_eq!(record.owner, None);
        }
        // And never again, whatever is published then. // P88
        stage.publish(&format!("{name}.a"), 5).await;
        running.stop().await.unwrap();
        let again = stage
            .start("again", Missing::Refuse, &[super::stage::group(&yaml)])
            .await;
        again.coordinates(&format!("default/{name}")).await;
        assert_eq!(stage.offset(name, 0).await.next_seq.0, expected, "{name}");
        again.stop().await.unwrap();
    }
}

async fn make_stream(stage: &Stage, name: &str) {
    let client = stage.server.connect().await.unwrap();
    let context = async_nats::jetstream::new(client);
    let config = async_nats::jetstream::stream::Config {
        name: format!("S{name}"),
        subjects: vec![format!("{name}.*")],
        subject_transform: Some(async_nats::jetstream::stream::SubjectTransform {
            source: format!("{name}.*"),
            destination: format!("{name}.{{{{partition(4,1)}}}}.{{{{wildcard(1)}}}}"),
        }),
        ..Default::default()
    };
    context.create_stream(config).await.unwrap();
}

#[tokio::test]
async fn a_coordinator_waits_for_its_server_and_says_so() {
    let stage = Stage::new().await;
    let proxy = Proxy::before(&stage.server).await.unwrap();
    proxy.set(Mode::Refuse);
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("orders.yaml");
    std::fs::write(&file, manifest("orders")).unwrap();
    let (url, file) = (proxy.url(), file.display().to_string());
    let arguments = [
        "coordinator",
        "--create",
        "--id",
        "c1",
        "--http-addr",
        "127.0.0.1:0",
        "--nats-url",
        &url,
        &file,
    ];
    let output = folder.path().join("c1.log");
    let mut child = process::start_lockstep(&arguments, &output).unwrap();
    process::wait_for_line(&child, "NATS cannot be reached", SOON)
        .await
        .unwrap();
    proxy.set(Mode::Pass);
    let line = process::wait_for_line(&child, "ready: coordinator c1", SOON)
        .await
        .unwrap();
    let address = line.rsplit("http on ").next().unwrap().trim().to_owned();
    let ready = until("/readyz", SOON, async || {
        match lockstep_e2e::http::get(&address, "/readyz").await {
            Ok((200, _)) => Ok(()),
            other => Err(format!("{other:?}")),
        }
    });
    ready.await.unwrap();
    let (code, metrics) = lockstep_e2e::http::get(&address, "/metrics").await.unwrap();
    assert_eq!(code, 200);
    let active = r#"lockstep_coordinator_active{namespace="default",group="orders"}"#;
    assert!(metrics.contains(active), "{metrics}");
    let ended = child.terminate(Duration::from_secs(10)).await.unwrap();
    assert_eq!(ended.code(), Some(0), "{}", child.tail());
}
