//! A user who may only look, exactly as the permissions for it are documented.

use lockstep::nats::{Auth, Options};
use lockstep_e2e::NatsServer;
use lockstep_e2e::process::Finished;

use crate::plant::{self, Plant, refused};

const USERS: &str = r#"
authorization {
  users = [
    { user: root, password: root-secret }
    { user: reader, password: reader-secret, permissions: {
        publish: ["$JS.API.STREAM.NAMES",
                  "$JS.API.STREAM.INFO.KV_lockstep_default_orders",
                  "$JS.API.STREAM.MSG.GET.KV_lockstep_default_orders",
                  "$JS.API.STREAM.INFO.ORDERS"]
        subscribe: ["_INBOX.lockstep.cli.>"]
    } }
  ]
}
"#;

struct Reader {
    plant: Plant,
    folder: tempfile::TempDir,
}

impl Reader {
    async fn new() -> Self {
        let server = NatsServer::options().config(USERS).start().await.unwrap();
        let folder = tempfile::tempdir().unwrap();
        for name in ["root", "reader"] {
            std::fs::write(folder.path().join(name), format!("{name}-secret\n")).unwrap();
        }
        let file = folder.path().join("root");
        let as_root = |url| Options {
            auth: Auth::Password {
                user: "root".to_owned(),
                file: file.clone(),
            },
            ..Options::for_url(url)
        };
        let plant = Plant::on(server, as_root).await;
        Self { plant, folder }
    }

    async fn run(&self, line: &str) -> Finished {
        let file = self.folder.path().join("reader").display().to_string();
        let url = self.plant.server.url();
        let mut words: Vec<&str> = line.split(' ').collect();
        words.extend([
            "--nats-user",
            "reader",
            "--nats-password-file",
            &file,
            "--nats-url",
            &url,
        ]);
        plant::run(&words, "", &[]).await
    }
}

#[tokio::test]
async fn a_reader_sees_everything_and_no_consumer_is_made() {
    let reader = Reader::new().await;
    for line in [
        "group list",
        "group describe orders",
        "group members orders",
        "group offsets orders",
        "partition-of orders k",
    ] {
        let finished = reader.run(line).await;
        assert_eq!(
            (finished.code, finished.stderr.as_str()),
            (Some(0), ""),
            "{line}: {finished:?}"
        );
        assert!(!finished.stdout.is_empty());
    }
    // Also where messages have to be counted.
    let mut document = plant::document();
    document.partitions[0].owner = None;
    let bytes = lockstep::wire::group::encode(&document).unwrap();
    reader
        .plant
        .put(&lockstep::wire::keys::Key::Group, bytes)
        .await;
    let finished = reader.run("group describe orders -o json").await;
    assert_eq!(finished.code, Some(0), "{finished:?}");
    assert_eq!(reader.plant.stream().await.consumers, 0);
}

#[tokio::test]
async fn a_reader_can_change_nothing() {
    let reader = Reader::new().await;
    let before = reader.plant.meta().await;
    for line in [
        "group pause orders",
        "group resume orders --partitions 1",
        "group adopt orders",
    ] {
        let finished = reader.run(line).await;
        // Resuming and adopting what is so already needs no write.
        if line.contains("pause") {
            refused(line, &finished, 1, &["orders"]);
        }
    }
    let finished = reader.run("publish orders --key a --data x").await;
    refused("publish", &finished, 1, &["not known"]);
    assert_eq!(reader.plant.meta().await, before);
    assert_eq!(reader.plant.stream().await.messages, 0);
}

#[tokio::test]
async fn a_wrong_password_is_told_as_such() {
    let reader = Reader::new().await;
    std::fs::write(reader.folder.path().join("reader"), "wrong").unwrap();
    let finished = reader.run("group list").await;
    refused(
        "group list",
        &finished,
        1,
        &["authorization", "credentials"],
    );
}
