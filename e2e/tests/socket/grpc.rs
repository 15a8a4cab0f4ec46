//! The same as gRPC, and Consume.

use std::collections::BTreeMap;

use lockstep::wire::proto::{
    self, ack_request, ack_result, consume_request as into, consume_response as out,
    publish_request::To,
};
use lockstep_e2e::socket_client::{channel, grpc};
use tokio::sync::mpsc;
use tonic::Streaming;
use tonic_health::pb::HealthCheckRequest;
use tonic_health::pb::health_check_response::ServingStatus;
use tonic_health::pb::health_client::HealthClient;

use super::*;

#[tokio::test]
#[expect(clippy::too_many_lines, reason = "one conversation, call by call")]
async fn every_call_works_over_grpc_beside_http() -> Outcome<()> {
    let (mut scene, client) = alone().await?;
    let mut worker = grpc(&scene.member("w1")?.socket()).await?;
    let published = worker
        .publish(proto::PublishRequest {
            to: Some(To::Key("customer-1".to_owned())),
            payload: b"\xff\x00".as_slice().into(),
            headers: BTreeMap::from([(
                "x".to_owned(),
                proto::HeaderValues {
                    values: vec!["1".to_owned()],
                },
            )]),
            id: Some("one".to_owned()),
            ..Default::default()
        })
        .await?
        .into_inner();
    assert!(!published.duplicate);

    let fetched = worker
        .fetch(proto::FetchRequest {
            max_wait: Some(prost_types::Duration {
                seconds: 20,
                nanos: 0,
            }),
            ..Default::default()
        })
        .await?
        .into_inner();
    let message = &fetched.messages[0];
    assert_eq!(&message.payload[..], b"\xff\x00");
    assert_eq!(message.headers["x"].values, ["1"]);
    assert_eq!(message.sequence, published.sequence);
    assert_eq!(Some(message.partition), published.partition);

    // One default session for both encodings.
    let over_http = fetch(&client, json!({"max_wait": "5s"})).await?;
    assert_eq!(over_http.body["redelivered"], 1);
    assert_eq!(over_http.messages()[0]["payload"], "/wA=");

    let position = place(message);
    let acked = worker
        .ack(proto::AckRequest {
            positions: vec![position],
            mode: ack_request::Mode::UpTo.into(),
            wait: ack_request::Wait::Committed.into(),
        })
        .await?
        .into_inner();
    assert_eq!(acked.results[0].status(), ack_result::Status::Committed);
    let nacked = worker
        .nack(proto::NackRequest {
            messages: vec![position],
            error: "too late".to_owned(),
            delay: None,
        })
        .await?
        .into_inner();
    assert_eq!(nacked.results.len(), 1);

    worker
        .pause(proto::PauseRequest { partitions: vec![] })
        .await?;
    let status = worker.status(proto::StatusRequest {}).await?.into_inner();
    assert!(
        status
            .partitions
            .iter()
            .all(|p| p.state() == proto::partition_status::State::Paused),
        "{status:?}"
    );
    worker
        .resume(proto::ResumeRequest { partitions: vec![] })
        .await?;

    let mut events = worker.watch(proto::WatchRequest {}).await?.into_inner();
    let drained = worker
        .drain(proto::DrainRequest { timeout: None })
        .await?
        .into_inner();
    assert_eq!((drained.clean, drained.unclean), (6, 0));
    let first = tokio::time::timeout(SETTLED, events.message()).await;
    assert!(matches!(first, Ok(Ok(Some(_)))), "{first:?}");
    let status = worker.fetch(proto::FetchRequest::default()).await;
    assert_eq!(
        status.map_err(|s| s.code()).err(),
        Some(tonic::Code::Unavailable)
    );
    Ok(())
}

#[tokio::test]
async fn grpc_health_is_serving_once_the_member_has_joined() -> Outcome<()> {
    let (mut scene, _client) = alone().await?;
    let channel = channel(&scene.member("w1")?.socket()).await?;
    let mut health = HealthClient::new(channel);
    let request = HealthCheckRequest {
        service: "lockstep.worker.v1.Worker".to_owned(),
    };
    let answer = health.check(request).await?.into_inner();
    assert_eq!(answer.status(), ServingStatus::Serving);
    Ok(())
}

#[tokio::test]
async fn a_stream_is_fed_as_far_as_its_credit_reaches() -> Outcome<()> {
    let (mut scene, client) = alone().await?;
    for n in 0..20 {
        publish(&client, &format!("k{n}"), "x").await?;
    }
    let mut stream = Stream::open(&mut scene, 8).await?;
    let Some(out::Frame::Assigned(assigned)) = stream.next().await? else {
        return Err(SceneError::new("the assignment comes first"));
    };
    assert_eq!(assigned.partitions.len(), 6, "{assigned:?}");
    let mut messages = stream.messages(8).await?;
    assert_eq!(messages.len(), 8);
    stream.quiet().await?;
    stream
        .say(into::Frame::Credit(into::Credit {
            messages: 100,
            bytes: 1_000_000,
        }))
        .await;
    messages.extend(stream.messages(12).await?);
    let mut last = BTreeMap::new();
    for message in &messages {
        let before = last.insert(message.partition, message.sequence);
        assert!(before < Some(message.sequence), "{messages:?}");
    }

    let positions: Vec<_> = messages.iter().map(place).collect();
    stream
        .say(into::Frame::Ack(proto::AckRequest {
            positions,
            mode: ack_request::Mode::Each.into(),
            wait: ack_request::Wait::Committed.into(),
        }))
        .await;
    let Some(out::Frame::AckResult(acked)) = stream.next().await? else {
        return Err(SceneError::new("the acknowledgement is answered"));
    };
    assert_eq!(acked.results.len(), 20);
    assert!(
        acked
            .results
            .iter()
            .all(|r| r.status() == ack_result::Status::Committed),
        "{acked:?}"
    );
    Ok(())
}

#[tokio::test]
async fn what_a_broken_stream_had_is_given_to_the_next() -> Outcome<()> {
    let (mut scene, client) = alone().await?;
    publish(&client, "k", "a").await?;
    publish(&client, "k", "b").await?;
    let mut first = Stream::open(&mut scene, 100).await?;
    let had = first.messages(2).await?;
    drop(first);
    let mut second = Stream::open(&mut scene, 100).await?;
    let again = second.messages(2).await?;
    let sequences = |all: &[proto::Message]| all.iter().map(|m| m.sequence).collect::<Vec<_>>();
    assert_eq!(sequences(&had), sequences(&again));
    assert!(again[0].attempt >= had[0].attempt, "{again:?}");
    Ok(())
}

#[tokio::test]
async fn a_stream_hears_of_a_revocation_and_lets_go() -> Outcome<()> {
    let (mut scene, client) = alone().await?;
    publish(&client, "k", "a").await?;
    let mut stream = Stream::open(&mut scene, 100).await?;
    let had = stream.messages(1).await?;
    let drain = async {
        let drained = client.post("/v1/drain", &json!({"timeout": "40s"})).await?;
        assert_eq!(drained.body["unclean"], 0, "{drained:?}");
        Outcome::Ok(())
    };
    let letting_go = async {
        let mut revoked = Vec::new();
        while revoked.len() < 6 {
            match stream.next().await? {
                Some(out::Frame::Revoking(revoking)) => {
                    assert!(revoking.deadline.is_some());
                    let ours = revoking
                        .partitions
                        .iter()
                        .any(|p| p.partition == had[0].partition);
                    if ours {
                        stream
                            .say(into::Frame::Ack(proto::AckRequest {
                                positions: vec![place(&had[0])],
                                ..Default::default()
                            }))
                            .await;
                    }
                }
                Some(out::Frame::Revoked(gone)) => revoked.extend(gone.partitions),
                other => return Err(SceneError::new(format!("{other:?}"))),
            }
        }
        Ok(())
    };
    let (drained, let_go) = tokio::join!(drain, letting_go);
    let_go?;
    drained
}

/// An open Consume stream.
pub(crate) struct Stream {
    to: mpsc::Sender<proto::ConsumeRequest>,
    from: Streaming<proto::ConsumeResponse>,
}

impl Stream {
    pub(crate) async fn open(scene: &mut Scene, credit: u64) -> Outcome<Self> {
        let mut worker = grpc(&scene.member("w1")?.socket()).await?;
        let (to, frames) = mpsc::channel(16);
        let frames = futures_util::stream::unfold(frames, |mut frames| async {
            frames.recv().await.map(|frame| (frame, frames))
        });
        let from = worker.consume(frames).await?.into_inner();
        let stream = Self { to, from };
        stream
            .say(into::Frame::Start(into::Start {
                credit_messages: credit,
                credit_bytes: 10_000_000,
            }))
            .await;
        Ok(stream)
    }

    pub(crate) async fn say(&self, frame: into::Frame) {
        // A stream that has ended is seen by whoever reads it.
        drop(
            self.to
                .send(proto::ConsumeRequest { frame: Some(frame) })
                .await,
        );
    }

    pub(crate) async fn next(&mut self) -> Outcome<Option<out::Frame>> {
        let heard = tokio::time::timeout(SETTLED, self.from.message())
            .await
            .map_err(|_| SceneError::new("no frame came"))?;
        Ok(heard?.and_then(|heard| heard.frame))
    }

    /// The next messages, whatever else comes.
    pub(crate) async fn messages(&mut self, count: usize) -> Outcome<Vec<proto::Message>> {
        let mut all = Vec::new();
        while all.len() < count {
            match self.next().await? {
                Some(out::Frame::Batch(batch)) => all.extend(batch.messages),
                Some(_) => {}
                None => return Err(SceneError::new("the stream ended")),
            }
        }
        Ok(all)
    }

    /// Nothing comes for a while.
    async fn quiet(&mut self) -> Outcome<()> {
        match tokio::time::timeout(Duration::from_millis(500), self.from.message()).await {
            Err(_) => Ok(()),
            Ok(heard) => Err(SceneError::new(format!("{heard:?}"))),
        }
    }
}

pub(crate) fn place(message: &proto::Message) -> proto::Position {
    proto::Position {
        partition: message.partition,
        epoch: message.epoch,
        sequence: message.sequence,
    }
}
