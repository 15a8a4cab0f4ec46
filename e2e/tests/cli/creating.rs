//! `group create`

use lockstep::nats::streams;
use lockstep::nats::{Connection, Options, Role};
use lockstep_e2e::NatsServer;
use lockstep_e2e::process::Finished;
use serde_json::json;

use crate::plant::{refused, run};

const ORDERS: &str = r#"
apiVersion: lockstep.dev/v1alpha1
kind: ConsumerGroup
metadata: {name: orders, namespace: shop}
spec:
  source: {stream: {name: ORDERS, create: {subjects: ["orders.*"], storage: File, replicas: 1}}}
  partitioning: {partitions: 4, keyTokens: [1]}
"#;

struct Site {
    server: NatsServer,
    connection: Connection,
    folder: tempfile::TempDir,
}

impl Site {
    async fn new() -> Self {
        let server = NatsServer::start().await.unwrap();
        let options = Options::for_url(server.url());
        let connection = Connection::connect(&options, &Role::Coordinator, "test")
            .await
            .unwrap();
        connection.up().await;
        let folder = tempfile::tempdir().unwrap();
        Self {
            server,
            connection,
            folder,
        }
    }

    /// The manifest's path, and how the command ended.
    async fn create(&self, manifest: &str) -> Finished {
        let path = self.folder.path().join("group.yaml");
        std::fs::write(&path, manifest).unwrap();
        self.run(&format!("group create {}", path.display())).await
    }

    async fn run(&self, line: &str) -> Finished {
        let url = self.server.url();
        let words: Vec<&str> = line.split(' ').chain(["--nats-url", &url]).collect();
        run(&words, "", &[]).await
    }

    async fn makes(&self, manifest: &str, sentence: &str) {
        let finished = self.create(manifest).await;
        assert_eq!(
            (finished.code, finished.stderr.as_str()),
            (Some(0), ""),
            "{finished:?}"
        );
        assert_eq!(finished.stdout, format!("{sentence}\n"));
    }

    /// Every stream of the account, buckets included.
    async fn streams(&self) -> Vec<String> {
        streams::names(&self.connection, ">").await.unwrap()
    }
}

#[tokio::test]
async fn a_group_is_made_whole_and_can_be_used_at_once() {
    let site = Site::new().await;
    site.makes(ORDERS, "group shop/orders is made, with 4 partitions")
        .await;
    let finished = site.run("publish shop/orders --key c --data x").await;
    assert_eq!(
        finished.stdout, "partition=2 sequence=1 duplicate=false\n",
        "{finished:?}"
    );
    let finished = site.run("group list -o json").await;
    let list: serde_json::Value = serde_json::from_str(&finished.stdout).unwrap();
    assert_eq!(list[0]["group"], "shop/orders");
    assert_eq!(list[0]["state"], "NoCoordinator");
    assert_eq!(list[0]["manager"], "standalone");
    assert_eq!(list[0]["total_lag"], json!(null));
    // The same again changes nothing; a setting that may change is changed.
    site.makes(ORDERS, "group shop/orders was as the manifest says already")
        .await;
    let paused = format!("{ORDERS}  paused: true\n");
    site.makes(
        &paused,
        "group shop/orders is as the manifest says as of generation 2",
    )
    .await;
}

#[tokio::test]
async fn what_is_wrong_with_a_manifest_is_told_by_field_and_nothing_is_made() {
    let site = Site::new().await;
    for (from, to, words) in [
        (
            "partitions: 4",
            "partitions: 0",
            vec!["spec.partitioning.partitions"],
        ),
        (
            "partitions: 4",
            "partitons: 4",
            vec!["spec.partitioning", "partitons", "partitions"],
        ),
        ("name: orders,", "name: or_ders,", vec!["metadata.name"]),
        (
            "storage: File",
            "storage: Tape",
            vec!["spec.source.stream.create.storage", "File", "Memory"],
        ),
        (
            "spec:",
            "spec:\n  delivery: {push: {port: 80}}",
            vec!["spec.delivery.push", "not supported yet"],
        ),
        ("v1alpha1", "v9", vec!["apiVersion"]),
        ("spec:", "spec: [", vec!["group.yaml"]),
        (
            "{stream: {name: ORDERS,",
            "{streams: {pattern: x}, stream: {name: ORDERS,",
            vec!["spec.source"],
        ),
    ] {
        let manifest = ORDERS.replace(from, to);
        assert_ne!(manifest, ORDERS);
        let finished = site.create(&manifest).await;
        assert_eq!(
            (finished.code, finished.stdout.as_str()),
            (Some(2), ""),
            "{to}: {finished:?}"
        );
        for word in words {
            assert!(
                finished.stderr.contains(word),
                "{to}: no {word:?} in {}",
                finished.stderr
            );
        }
        let complete = |line: &str| line.starts_with("lockstep: ") && line.contains("group.yaml");
        assert!(finished.stderr.lines().all(complete), "{}", finished.stderr);
    }
    assert!(site.streams().await.is_empty());
    let finished = site.run("group create missing.yaml").await;
    refused(
        "a missing file",
        &finished,
        2,
        &["missing.yaml", "cannot be read"],
    );
}

#[tokio::test]
async fn of_a_file_with_one_wrong_group_none_is_made() {
    let site = Site::new().await;
    let other = ORDERS
        .replace("name: orders,", "name: returns,")
        .replace("partitions: 4", "partitions: -1");
    let finished = site.create(&format!("{ORDERS}---{other}")).await;
    refused(
        "two groups",
        &finished,
        2,
        &["document 2", "spec.partitioning.partitions"],
    );
    assert!(site.streams().await.is_empty());
    // What only the server can tell is looked at before anything is made as well.
    let existing = ORDERS.replace("name: orders,", "name: returns,").replace(
        r#"create: {subjects: ["orders.*"], storage: File, replicas: 1}"#,
        r#"subjectPattern: "returns.{partition}.>""#,
    );
    let existing = existing
        .replace("ORDERS", "RETURNS")
        .replace(", keyTokens: [1]", "");
    let finished = site.create(&format!("{ORDERS}---{existing}")).await;
    refused(
        "a missing stream",
        &finished,
        1,
        &["nothing was made", "RETURNS"],
    );
    assert!(site.streams().await.is_empty());
}

#[tokio::test]
async fn what_cannot_change_is_refused_and_stays() {
    let site = Site::new().await;
    site.makes(ORDERS, "group shop/orders is made, with 4 partitions")
        .await;
    let finished = site
        .create(&ORDERS.replace("partitions: 4", "partitions: 8"))
        .await;
    refused("more partitions", &finished, 2, &["shop/orders", "4", "8"]);
    site.makes(ORDERS, "group shop/orders was as the manifest says already")
        .await;
}

#[tokio::test]
async fn a_stream_that_forgets_what_was_read_is_refused() {
    let site = Site::new().await;
    let client = site.server.connect().await.unwrap();
    let config = async_nats::jetstream::stream::Config {
        name: "QUEUE".to_owned(),
        subjects: vec!["q.>".to_owned()],
        retention: async_nats::jetstream::stream::RetentionPolicy::WorkQueue,
        ..Default::default()
    };
    async_nats::jetstream::new(client)
        .create_stream(config)
        .await
        .unwrap();
    let manifest = ORDERS
        .replace(
            r#"name: ORDERS, create: {subjects: ["orders.*"], storage: File, replicas: 1}"#,
            r#"name: QUEUE, subjectPattern: "q.{partition}.>""#,
        )
        .replace(", keyTokens: [1]", "");
    let finished = site.create(&manifest).await;
    refused("a work queue", &finished, 1, &["QUEUE", "workqueue"]);
    assert_eq!(site.streams().await, ["QUEUE"]);
}
