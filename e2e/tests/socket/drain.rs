//! The three ends of a drain, as a pod's preStop meets them: the `lockstep worker drain` of a real
//! worker.

use std::time::Instant;

use futures_util::StreamExt;
use lockstep::wire::proto::{self, consume_request as into, consume_response as out};
use lockstep_e2e::clock;
use lockstep_e2e::process::{Finished, run_lockstep};

use super::grpc::{Stream, place};
use super::*;

/// Far more than any other end of a drain takes.
const LONG: &str = "50s";

/// What a drain said and how long it took.
struct Ended {
    finished: Finished,
    at: Instant,
}

async fn drains(scene: &mut Scene, timeout: &str) -> Outcome<Ended> {
    let path = scene.member("w1")?.socket().display().to_string();
    let words = ["worker", "drain", "--socket", &path, "--timeout", timeout];
    let finished = run_lockstep(&words).await?;
    let at = clock::now();
    Ok(Ended { finished, at })
}

impl Ended {
    fn says(&self, text: &str) {
        assert_eq!(self.finished.code, Some(0), "{:?}", self.finished);
        assert_eq!(self.finished.stdout, format!("drained: {text}\n"));
    }
}

/// A worker with one message in the hands of a stream, and what it writes of itself.
async fn with_a_message() -> Outcome<(Scene, Stream, proto::Message, async_nats::Subscriber)> {
    let manifest = Manifest {
        max_in_flight: 100,
        rebalance_timeout: "2m".to_owned(), // no revocation ends before the drain does
        ..Manifest::default()
    };
    let (mut scene, client) = alone_with(manifest).await?;
    let nats = scene.servers.connect().await?;
    let documents = nats
        .subscribe("$KV.lockstep_default_orders.member.*")
        .await?;
    nats.flush().await?;
    publish(&client, "k", "a").await?;
    let mut stream = Stream::open(&mut scene, 100).await?;
    let had = stream.messages(1).await?.remove(0);
    Ok((scene, stream, had, documents))
}

/// Waits until the stream hears that its message's partition goes.
async fn is_revoked(stream: &mut Stream, had: &proto::Message) -> Outcome<()> {
    loop {
        match stream.next().await? {
            Some(out::Frame::Revoking(going)) => {
                let mut going = going.partitions.iter();
                if going.any(|p| p.partition == had.partition) {
                    return Ok(());
                }
            }
            Some(_) => {}
            None => return Err(SceneError::new("the stream ended")),
        }
    }
}

/// The member has said that it left, and nothing since.
async fn left(documents: &mut async_nats::Subscriber) -> Outcome<()> {
    let saying = async {
        while let Some(document) = documents.next().await {
            let text = String::from_utf8_lossy(&document.payload).into_owned();
            if text.contains(r#""left""#) {
                return;
            }
        }
    };
    let said = tokio::time::timeout(Duration::from_secs(5), saying).await;
    said.map_err(|_| SceneError::new("the member has not said that it left"))
}

#[tokio::test]
async fn a_drain_ends_when_everything_is_acknowledged() -> Outcome<()> {
    let (mut scene, mut stream, had, mut documents) = with_a_message().await?;
    let begun = clock::now();
    let finishing = async {
        is_revoked(&mut stream, &had).await?;
        let positions = vec![place(&had)];
        stream
            .say(into::Frame::Ack(proto::AckRequest {
                positions,
                ..Default::default()
            }))
            .await;
        Outcome::Ok(())
    };
    let (ended, finished) = tokio::join!(drains(&mut scene, LONG), finishing);
    finished?;
    let ended = ended?;
    ended.says("6 partitions released clean, 0 unclean");
    left(&mut documents).await?;
    assert!(ended.at.duration_since(begun) < Duration::from_secs(30));
    Ok(())
}

#[tokio::test]
async fn a_drain_ends_a_second_after_the_last_session() -> Outcome<()> {
    let (mut scene, mut stream, had, mut documents) = with_a_message().await?;
    let dying = async {
        is_revoked(&mut stream, &had).await?;
        drop(stream);
        Outcome::Ok(clock::now())
    };
    let (ended, died) = tokio::join!(drains(&mut scene, LONG), dying);
    let (ended, died) = (ended?, died?);
    ended.says("5 partitions released clean, 1 unclean");
    left(&mut documents).await?;
    let took = ended.at.duration_since(died);
    assert!(
        (Duration::from_secs(1)..Duration::from_secs(30)).contains(&took),
        "{took:?}"
    );
    Ok(())
}

#[tokio::test]
async fn an_application_that_comes_back_during_a_drain_finishes_what_it_had() -> Outcome<()> {
    let (mut scene, mut stream, had, mut documents) = with_a_message().await?;
    let client = SocketClient::new(scene.member("w1")?.socket());
    let coming_back = async {
        is_revoked(&mut stream, &had).await?;
        drop(stream);
        // Until the worker has noticed, it has nothing to give.
        let again = until("what it had", SETTLED, async || {
            let reply = fetch(&client, json!({})).await.map_err(|e| e.to_string())?;
            let first = reply.messages().first().cloned();
            first.ok_or_else(|| format!("{reply:?}"))
        });
        let again = again.await?;
        assert_eq!(again["sequence"], had.sequence);
        let ack = json!({"positions": [position(&again)]});
        let acked = client.post("/v1/ack", &ack).await?;
        assert_ne!(acked.body["results"][0]["status"], "NOT_OWNED", "{acked:?}");
        Outcome::Ok(())
    };
    let (ended, came_back) = tokio::join!(drains(&mut scene, LONG), coming_back);
    came_back?;
    ended?.says("6 partitions released clean, 0 unclean");
    left(&mut documents).await
}

#[tokio::test]
async fn a_drain_ends_with_its_time_whoever_still_works() -> Outcome<()> {
    let (mut scene, stream, _had, mut documents) = with_a_message().await?;
    let begun = clock::now();
    let ended = drains(&mut scene, "2s").await?;
    ended.says("5 partitions released clean, 1 unclean");
    left(&mut documents).await?;
    let took = ended.at.duration_since(begun);
    assert!(
        (Duration::from_secs(2)..Duration::from_secs(30)).contains(&took),
        "{took:?}"
    );
    drop(stream);
    Ok(())
}

#[tokio::test]
async fn a_drain_does_not_wait_for_a_server_that_is_away() -> Outcome<()> {
    let (mut scene, _client) = alone().await?;
    scene.servers.kill()?;
    let ended = drains(&mut scene, "1s").await?;
    assert_eq!(ended.finished.code, Some(1), "{:?}", ended.finished);
    let said = &ended.finished.stderr;
    assert!(
        said.contains("has not confirmed that this member left"),
        "{said}"
    );
    // Its SIGTERM comes next, and ends it.
    let worker = &mut scene.member("w1")?.worker;
    worker.terminate(Duration::from_secs(15)).await?;
    Ok(())
}
