//! A partition that stands still until somebody acts, and the two ways to lift it.

use lockstep_e2e::process::run_lockstep;
use lockstep_e2e::socket_client::SocketClient;
use lockstep_e2e::until::until;
use serde_json::{Value, json};

use crate::stage::{SOON, Stage, group};

const RESUME: &str = "lockstep.dev/resume";

// P128
#[tokio::test]
async fn a_stopped_partition_is_lifted_by_an_annotation_and_by_the_command() {
    let stage = Stage::new().await;
    let once = "  delivery: {retry: {maxAttempts: 1}}\n";
    stage.apply(&group("orders", once)).await;
    stage.ready("orders", "NoMembers").await;
    let (_worker, client) = stage.worker();
    let jetstream = stage.jetstream().await;
    let published = jetstream.publish("orders.a", "hello".into()).await.unwrap();
    published.await.unwrap();

    let message = stage.handed_over(&client).await;
    stops(&stage, &client, &message).await;
    // What is not understood lifts nothing and is not tried for ever.
    annotate(&stage, "everything").await;
    let text = stage.event("orders", "ResumeRefused").await;
    assert!(text.contains("neither `all` nor numbers"), "{text}");
    forgotten(&stage).await;
    annotate(&stage, "all").await;
    let again = stage.handed_over(&client).await;
    assert_eq!(again["sequence"], message["sequence"]);
    let text = stage.event("orders", "Resumed").await;
    let lifted = format!("partitions {} go on", message["partition"]);
    assert!(text.contains(&lifted), "{text}");
    forgotten(&stage).await;
    goes_on(&stage).await;

    stops(&stage, &client, &again).await;
    let partition = message["partition"].to_string();
    let url = stage.nats.url();
    let resume = [
        "group",
        "resume",
        "orders",
        "--partitions",
        &partition,
        "--nats-url",
        &url,
    ];
    let done = run_lockstep(&resume).await.unwrap();
    assert_eq!(done.code, Some(0), "{}", done.stderr);
    stage.handed_over(&client).await;
    goes_on(&stage).await;
    // Nothing stands still any more, and pauses are the object's.
    let done = run_lockstep(&resume).await.unwrap();
    assert_eq!(done.code, Some(1));
    assert!(
        done.stderr.contains("kubectl patch consumergroup"),
        "{}",
        done.stderr
    );
}

/// The application gives up on the message, and the group says so.
async fn stops(stage: &Stage, client: &SocketClient, message: &Value) {
    let position = ["partition", "epoch", "sequence"].map(|name| (name, &message[name]));
    let position: serde_json::Map<String, Value> = position
        .into_iter()
        .map(|(name, value)| (name.to_owned(), value.clone()))
        .collect();
    let body = json!({"messages": [position], "error": "out of stock"});
    let answer = client.post("/v1/nack", &body).await.unwrap();
    assert_eq!(answer.status, 200, "{}", answer.body);
    stage
        .condition(
            ("cg", "orders"),
            "PartitionsProgressing",
            ("False", "MessageStuck"),
        )
        .await;
}

async fn goes_on(stage: &Stage) {
    stage
        .condition(
            ("cg", "orders"),
            "PartitionsProgressing",
            ("True", "AsExpected"),
        )
        .await;
}

async fn annotate(stage: &Stage, which: &str) {
    let annotation = format!("{RESUME}={which}");
    stage
        .kubectl(&["annotate", "cg", "orders", &annotation])
        .await;
}

async fn forgotten(stage: &Stage) {
    until("object without the annotation", SOON, async || {
        let object = stage.get("cg", "orders").await.unwrap_or_default();
        let annotation = object["metadata"]["annotations"].get(RESUME);
        annotation.map_or(Ok(()), |annotation| Err(annotation.to_string()))
    })
    .await
    .unwrap();
}
