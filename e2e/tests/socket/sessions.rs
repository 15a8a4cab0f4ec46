//! Several readers on one socket: order per partition holds between them.

use super::*;

#[tokio::test]
async fn a_partition_in_one_sessions_hands_is_not_served_to_another() -> Outcome<()> {
    let (_scene, client) = alone().await?;
    let (a, b) = (client.as_session("a"), client.as_session("b"));
    publish(&client, "k", "1").await?;
    publish(&client, "k", "2").await?;
    let first = until("message", SETTLED, async || {
        let reply = fetch(&a, json!({"max_messages": 1, "max_wait": "1s"})).await;
        let reply = reply.map_err(|e| e.to_string())?;
        reply
            .messages()
            .first()
            .cloned()
            .ok_or_else(|| "nothing".to_owned())
    });
    let first = first.await?;
    let nothing = fetch(&b, json!({"max_wait": "500ms"})).await?;
    assert_eq!(nothing.messages().len(), 0, "{nothing:?}");
    // b can acknowledge nothing of it either.
    let ack = json!({"positions": [position(&first)]});
    let refused = b.post("/v1/ack", &ack).await?;
    assert_eq!(refused.body["results"][0]["status"], "NOT_OWNED");
    // Once a is done with what it has, the partition is free.
    let acked = a.post("/v1/ack", &ack).await?;
    assert_ne!(acked.body["results"][0]["status"], "NOT_OWNED");
    let second = fetch(&b, json!({"max_wait": "10s"})).await?;
    assert_eq!(second.messages().len(), 1, "{second:?}");
    assert!(second.messages()[0]["sequence"].as_u64() > first["sequence"].as_u64());
    Ok(())
}

#[tokio::test]
async fn other_partitions_are_served_meanwhile() -> Outcome<()> {
    let (_scene, client) = alone().await?;
    let (a, b) = (client.as_session("a"), client.as_session("b"));
    let p = publish(&client, "k0", "1").await?["partition"].clone();
    let first = fetch(&a, json!({"max_wait": "10s"})).await?;
    assert_eq!(first.messages().len(), 1);
    let mut n = 1;
    while publish(&client, &format!("k{n}"), "x").await?["partition"] == p {
        n += 1;
    }
    let other = fetch(&b, json!({"max_wait": "10s"})).await?;
    assert_eq!(other.messages().len(), 1, "{other:?}");
    assert_ne!(other.messages()[0]["partition"], p);
    Ok(())
}

#[tokio::test]
async fn a_second_fetch_of_one_session_waits_for_the_first() -> Outcome<()> {
    let (_scene, client) = alone().await?;
    let slow = fetch(&client, json!({"max_wait": "3s"}));
    let quick = fetch(&client, json!({"max_wait": "0s"}));
    let publishing = async { publish(&client, "k", "1").await };
    let (slow, quick, published) = tokio::join!(slow, quick, publishing);
    published?;
    let (slow, quick) = (slow?, quick?);
    // Whichever came first has it; the other was answered after it, with the same one.
    let got = slow.messages().len() + quick.messages().len();
    assert!((1..=2).contains(&got), "{slow:?} {quick:?}");
    Ok(())
}

#[tokio::test]
async fn the_name_of_an_open_stream_cannot_fetch() -> Outcome<()> {
    use lockstep::wire::proto::{self, consume_request as into};
    use lockstep_e2e::socket_client::grpc;
    let (mut scene, client) = alone().await?;
    let mut worker = grpc(&scene.member("w1")?.socket()).await?;
    let start = proto::ConsumeRequest {
        frame: Some(into::Frame::Start(into::Start {
            credit_messages: 10,
            credit_bytes: 10_000,
        })),
    };
    let frames = futures_util::StreamExt::chain(
        futures_util::stream::iter([start]),
        futures_util::stream::pending(),
    );
    let mut request = tonic::Request::new(frames);
    let name = "mine".parse().map_err(|_| SceneError::new("not a name"))?;
    request.metadata_mut().insert("lockstep-session", name);
    let mut stream = worker.consume(request).await?.into_inner();
    let heard = tokio::time::timeout(SETTLED, stream.message()).await;
    assert!(matches!(heard, Ok(Ok(Some(_)))), "{heard:?}");
    let conflict = fetch(&client.as_session("mine"), json!({})).await?;
    assert_eq!(conflict.status, 409, "{conflict:?}");
    assert_eq!(conflict.body["code"], "session-conflict");
    Ok(())
}
