//! NATS users with exactly the permissions that `lockstep permissions` prints, as docs/operations.md
//! lists them: a group is made, used, looked at and deleted, and the server refuses nothing. And nobody
//! may do what is another's to do.

use std::collections::BTreeSet;

use lockstep_e2e::children::Child;
use lockstep_e2e::socket_client::SocketClient;
use lockstep_e2e::{NatsServer, process, until};
use serde_json::{Value, json};

use crate::stage::{SOON, Stage, repository};

const BUCKET: &str = "lockstep_default_orders";

/// The documented subjects of a role, to publish to and to subscribe to.
fn documented(role: &str) -> [Vec<String>; 2] {
    let text = std::fs::read_to_string(repository().join("docs/operations.md")).unwrap();
    let section = text.split("## NATS permissions").nth(1).unwrap();
    let row = section
        .lines()
        .find(|line| line.starts_with(&format!("| {role} |")))
        .unwrap_or_else(|| panic!("no row for the {role}"));
    let cells: Vec<&str> = row.split('|').collect();
    [cells[2], cells[3]].map(|cell| {
        // What stands in brackets is for other groups, such as those that read a stream whole.
        let plain: String = cell
            .split("(`$")
            .enumerate()
            .map(|(n, part)| match part.split_once(')') {
                Some((_, rest)) if n > 0 => rest,
                Some(_) | None => part,
            })
            .collect();
        let quoted = plain.split('`').skip(1).step_by(2);
        let subjects = quoted.filter(|word| word.starts_with('$') || word.starts_with('_'));
        subjects.map(filled_in).collect::<Vec<_>>()
    })
}

/// With the names of group `orders` in namespace `default`.
fn filled_in(subject: &str) -> String {
    let tokens = subject.split('.').map(|token| match token {
        "KV_B" => format!("KV_{BUCKET}"),
        "B" => BUCKET.to_owned(),
        "S" => "ORDERS".to_owned(),
        "F" => "orders.*.*".to_owned(),
        "<namespace>" => "default".to_owned(),
        "<group>" => "orders".to_owned(),
        other => other.to_owned(),
    });
    tokens.collect::<Vec<_>>().join(".")
}

/// What `lockstep permissions` prints for a role of the group of these tests.
async fn printed(role: &str) -> String {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("orders.yaml");
    std::fs::write(&file, crate::stage::group("orders", DELETE)).unwrap();
    let file = file.display().to_string();
    let printed = process::run_lockstep(&["permissions", role, &file])
        .await
        .unwrap();
    assert_eq!(printed.code, Some(0), "{}", printed.stderr);
    printed.stdout
}

/// The subjects in a configuration, in their order.
fn quoted(configuration: &str) -> Vec<String> {
    let words = configuration.split('"').skip(1).step_by(2);
    words.map(str::to_owned).collect()
}

const DELETE: &str = "  deletionPolicy: Delete\n";

/// A server with users of each role, the controller's as given, and with somebody who may do anything.
async fn server(controller: &str) -> NatsServer {
    let users = [
        ("controller", controller.to_owned()),
        ("worker", printed("worker").await),
        ("cli", printed("cli").await),
    ];
    let users = users.map(|(name, needs)| format!("{{user: {name}, password: secret\n{needs}}}\n"));
    let users = format!(
        "authorization {{ users: [\n{{user: root, password: secret}}\n{}] }}",
        users.concat()
    );
    NatsServer::options().config(&users).start().await.unwrap()
}

/// What the server refused so far.
fn refusals(nats: &NatsServer) -> Vec<String> {
    let log = std::fs::read_to_string(nats.log()).unwrap();
    let refused = log.lines().filter(|line| line.contains("Violation"));
    refused.map(str::to_owned).collect()
}

fn guarded(url: &str) -> String {
    format!(
        "apiVersion: v1\nkind: Secret\nmetadata: {{name: nats}}\n\
         stringData: {{username: controller, password: secret}}\n---\n\
         apiVersion: lockstep.dev/v1alpha1\nkind: NatsConnection\nmetadata: {{name: default}}\n\
         spec: {{servers: [\"{url}\"], auth: {{userPassword: {{name: nats}}}}}}\n"
    )
}

async fn stage(nats: &NatsServer) -> Stage {
    let mut stage = Stage::without_controller().await;
    stage.controller("c1");
    stage.apply(&guarded(&nats.url())).await;
    stage.apply(&crate::stage::group("orders", DELETE)).await;
    stage
}

/// A worker under its own user, and a client at its socket.
fn worker(stage: &Stage, nats: &NatsServer) -> (Child, SocketClient) {
    let file = |name: &str| stage.api.folder().join(name).display().to_string();
    let (password, socket, url) = (file("password"), file("w.sock"), nats.url());
    std::fs::write(&password, "secret\n").unwrap();
    let mut arguments = vec!["worker", "--group", "orders", "--socket", &socket];
    arguments.extend(["--nats-url", &url, "--nats-user", "worker"]);
    arguments.extend(["--nats-password-file", &password]);
    let log = stage.api.folder().join("worker.log");
    let worker = process::start_lockstep(&arguments, &log).unwrap();
    (worker, SocketClient::new(socket))
}

/// Fetches a message and acknowledges it.
async fn handle_one(client: &SocketClient) -> Result<Value, String> {
    let body = json!({"max_messages": 1, "max_wait": "1s"});
    let answer = client.post("/v1/fetch", &body).await;
    let answer = answer.map_err(|error| error.to_string())?;
    let messages = answer.messages();
    let message = messages.first().ok_or_else(|| answer.body.to_string())?;
    let token = json!({
        "partition": message["partition"],
        "epoch": message["epoch"],
        "sequence": message["sequence"],
    });
    let done = client.post("/v1/ack", &json!({"positions": [token]})).await;
    let done = done.map_err(|error| error.to_string())?;
    if done.body["results"][0]["status"] == "ACCEPTED" {
        Ok(token)
    } else {
        Err(done.body.to_string())
    }
}

#[tokio::test]
async fn the_printed_permissions_suffice_for_a_whole_life() {
    let nats = server(&printed("controller").await).await;
    let stage = stage(&nats).await;
    stage.ready("orders", "NoMembers").await;

    let (mut worker, client) = worker(&stage, &nats);
    let root = async_nats::ConnectOptions::with_user_and_password("root".into(), "secret".into());
    let jetstream = async_nats::jetstream::new(root.connect(nats.url()).await.unwrap());
    let sent = jetstream.publish("orders.a", "hello".into()).await.unwrap();
    sent.await.unwrap();
    let handled = until("a message", SOON, async || handle_one(&client).await);
    let token = handled
        .await
        .unwrap_or_else(|late| panic!("{late}\n{}\n{:#?}", worker.tail(), refusals(&nats)));
    for look in [
        "list",
        "describe orders",
        "members orders",
        "offsets orders",
    ] {
        looks(&stage, &nats, look).await;
    }
    // A member that leaves commits first.
    worker.terminate(SOON).await.unwrap();
    let record = format!("$KV.{BUCKET}.offset.{}", token["partition"]);
    let bucket = jetstream.get_stream(format!("KV_{BUCKET}")).await.unwrap();
    let record = bucket
        .get_last_raw_message_by_subject(&record)
        .await
        .unwrap();
    let record: Value = serde_json::from_slice(&record.payload).unwrap();
    let next = token["sequence"].as_u64().map(|sequence| sequence + 1);
    assert_eq!(record["next_seq"].as_u64(), next, "{record}");

    let delete = ["delete", "cg", "orders", "--timeout=60s"];
    stage.kubectl(&delete).await;
    assert!(jetstream.get_stream("ORDERS").await.is_err());
    assert_eq!(refusals(&nats), Vec::<String>::new());
}

/// The check above can fail: without one of them the server refuses, and the group says so.
#[tokio::test]
async fn a_permission_that_is_missing_is_named_in_the_status() {
    let all = printed("controller").await;
    let without = all.replace("\"$JS.API.STREAM.CREATE.*\"\n", "\n");
    assert_eq!(quoted(&without).len(), quoted(&all).len() - 1);
    let nats = server(&without).await;
    let stage = stage(&nats).await;
    let text = stage
        .condition(("cg", "orders"), "Ready", ("False", "Provisioning"))
        .await;
    let refused = until("a refusal", SOON, async || {
        let refusals = refusals(&nats);
        if refusals.iter().any(|line| line.contains("STREAM.CREATE")) {
            Ok(())
        } else {
            Err(format!("{text}: {refusals:?}"))
        }
    });
    refused.await.unwrap();
}

/// Looks at groups with the command line, as its own user.
async fn looks(stage: &Stage, nats: &NatsServer, what: &str) {
    let password = stage.api.folder().join("password").display().to_string();
    let url = nats.url();
    let mut words = vec!["group"];
    words.extend(what.split(' '));
    words.extend(["--nats-url", &url, "--nats-user", "cli"]);
    words.extend(["--nats-password-file", &password]);
    let looked = process::run_lockstep(&words).await.unwrap();
    assert_eq!(looked.code, Some(0), "{what}: {}", looked.stderr);
}

/// What each role must not do, whatever its program asks for: publish, then subscribe.
const FORBIDDEN: [(&str, &[&str], &[&str]); 3] = [
    (
        "worker",
        &[
            "$KV.lockstep_default_orders.meta",
            "$KV.lockstep_default_orders.group",
            "$KV.lockstep_default_orders.candidate.x",
            "$KV.lockstep_default_other.member.x",
            "$KV.lockstep_default_other.offset.0",
            "$JS.API.STREAM.CREATE.NEW",
            "$JS.API.STREAM.UPDATE.ORDERS",
            "$JS.API.STREAM.DELETE.ORDERS",
            "$JS.API.STREAM.PURGE.ORDERS",
            "$JS.API.STREAM.MSG.DELETE.ORDERS",
            "$JS.API.STREAM.INFO.OTHERS",
            "$JS.API.CONSUMER.CREATE.OTHERS.x",
            "orders.a",
        ],
        &[
            ">",
            "orders.*",
            "_INBOX.lockstep.controller.>",
            "_INBOX.lockstep.default.other.>",
        ],
    ),
    (
        "cli",
        &[
            "$KV.lockstep_default_orders.meta",
            "$KV.lockstep_default_orders.offset.0",
            "$KV.lockstep_default_orders.member.x",
            "$JS.API.CONSUMER.CREATE.ORDERS.x.orders.*.*",
            "$JS.API.CONSUMER.DELETE.ORDERS.x",
            "$JS.API.STREAM.MSG.GET.ORDERS",
            "$JS.API.STREAM.DELETE.KV_lockstep_default_orders",
            "$JS.API.STREAM.PURGE.KV_lockstep_default_orders",
        ],
        &[
            ">",
            "_INBOX.lockstep.default.orders.>",
            "_INBOX.lockstep.controller.>",
        ],
    ),
    (
        "controller",
        &[
            "$KV.lockstep_default_orders.member.x",
            "$JS.API.STREAM.PURGE.ORDERS",
            "$JS.API.STREAM.MSG.DELETE.ORDERS",
            "orders.a",
        ],
        &[
            ">",
            "_INBOX.lockstep.default.orders.>",
            "_INBOX.lockstep.cli.>",
        ],
    ),
];

#[tokio::test]
async fn no_role_may_do_what_is_anothers() {
    let nats = server(&printed("controller").await).await;
    for (role, publish, subscribe) in FORBIDDEN {
        let before = refusals(&nats).len();
        let who = async_nats::ConnectOptions::with_user_and_password(role.into(), "secret".into());
        let client = who.connect(nats.url()).await.unwrap();
        for subject in publish {
            client.publish(*subject, "{}".into()).await.unwrap();
        }
        for subject in subscribe {
            client.subscribe(*subject).await.unwrap();
        }
        client.flush().await.unwrap();
        let expected = publish.iter().chain(subscribe);
        until(format!("refusals of the {role}"), SOON, async || {
            let refused = refusals(&nats).split_off(before);
            let named = |subject: &&&str| {
                !refused
                    .iter()
                    .any(|line| line.contains(&format!("\"{subject}\"")))
            };
            let missing: Vec<_> = expected.clone().filter(named).collect();
            if missing.is_empty() {
                Ok(())
            } else {
                Err(format!("may: {missing:?} of {refused:#?}"))
            }
        })
        .await
        .unwrap();
    }
}

/// The table in docs/operations.md says what is printed.
#[tokio::test]
async fn what_is_printed_is_what_is_documented() {
    for (role, row) in [
        ("controller", "controller"),
        ("worker", "worker"),
        ("coordinator", "coordinator"),
    ] {
        let documented: BTreeSet<String> = documented(row).into_iter().flatten().collect();
        let printed: BTreeSet<String> = quoted(&printed(role).await).into_iter().collect();
        assert_eq!(printed, documented, "{role}");
    }
}

/// docs/kubernetes.md shows the same, filled in.
#[tokio::test]
async fn the_shown_configuration_is_what_is_printed() {
    let text = std::fs::read_to_string(repository().join("docs/kubernetes.md")).unwrap();
    let block = text.split("```conf\n").nth(1).unwrap();
    let shown = quoted(block.split("```").next().unwrap());
    let mut all = quoted(&printed("controller").await);
    all.extend(quoted(&printed("worker").await));
    assert_eq!(shown, all);
}
