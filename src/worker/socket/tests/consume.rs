//! The stream of Consume.

use super::*;

static MEGABYTE: [u8; 1_000_000] = [7; 1_000_000];

struct Consumed {
    to: mpsc::Sender<proto::ConsumeRequest>,
    from: tonic::Streaming<proto::ConsumeResponse>,
}

impl Consumed {
    async fn open(scene: &Scene) -> Self {
        let (to, frames) = mpsc::channel(1024);
        let mut worker = scene.worker().await;
        let from = worker.consume(ReceiverStream::new(frames)).await.unwrap();
        Self {
            to,
            from: from.into_inner(),
        }
    }

    async fn say(&self, frame: into::Frame) {
        let frame = Some(frame);
        self.to.send(proto::ConsumeRequest { frame }).await.unwrap();
    }

    async fn hear(&mut self) -> Result<Option<out::Frame>, tonic::Status> {
        let heard = tokio::time::timeout(PATIENCE, self.from.message())
            .await
            .expect("a frame in time");
        Ok(heard?.map(|heard| heard.frame.expect("a frame that is known")))
    }
}

fn start(messages: u64) -> into::Frame {
    into::Frame::Start(into::Start {
        credit_messages: messages,
        credit_bytes: 1_000_000,
    })
}

fn acked(sequence: u64, wait: proto::ack_request::Wait) -> into::Frame {
    into::Frame::Ack(proto::AckRequest {
        positions: vec![proto::Position {
            partition: 3,
            epoch: 7,
            sequence,
        }],
        mode: 0,
        wait: wait.into(),
    })
}

/// Takes the opening of a stream and returns what feeds it.
async fn opened(scene: &mut Scene) -> mpsc::Sender<ConsumeFrame> {
    let command = tokio::time::timeout(PATIENCE, scene.commands.recv())
        .await
        .expect("the member is asked")
        .unwrap();
    let Command::Consume {
        session,
        credit,
        frames,
        reply,
    } = command
    else {
        panic!("{command:?}")
    };
    assert!(session.as_str().starts_with("stream-"), "{session}");
    assert_eq!(credit.messages, 100);
    reply.send(Ok((1, Arc::new(Notify::new())))).unwrap();
    frames
}

#[tokio::test]
async fn a_stream_carries_frames_both_ways() {
    let mut scene = Scene::start();
    let mut stream = Consumed::open(&scene).await;
    stream.say(start(100)).await;
    let frames = opened(&mut scene).await;
    let assigned = ConsumeFrame::Assigned(vec![(Partition(3), Epoch(7))]);
    frames.send(assigned).await.unwrap();
    frames
        .send(ConsumeFrame::Batch(vec![
            delivered(41, b"a"),
            delivered(42, b"b"),
        ]))
        .await
        .unwrap();
    let Some(out::Frame::Assigned(assigned)) = stream.hear().await.unwrap() else {
        panic!("the assignment comes first")
    };
    assert_eq!(assigned.partitions[0].epoch, 7);
    let Some(out::Frame::Batch(batch)) = stream.hear().await.unwrap() else {
        panic!("then the batch")
    };
    assert_eq!(batch.messages.len(), 2);

    stream
        .say(acked(42, proto::ack_request::Wait::Committed))
        .await;
    stream
        .say(into::Frame::Credit(into::Credit {
            messages: 2,
            bytes: 2,
        }))
        .await;
    let Some(Command::Ack {
        positions, reply, ..
    }) = scene.commands.recv().await
    else {
        panic!("the acknowledgement comes first")
    };
    // The answer is waited for, the stream goes on meanwhile.
    let Some(Command::Grant { stream: 1, credit }) = scene.commands.recv().await else {
        panic!("then the credit")
    };
    assert_eq!(credit.messages, 2);
    let result = AckResult {
        position: positions[0],
        status: AckStatus::Committed,
        committed: Sequence(43),
    };
    reply.send(Ok(vec![result])).unwrap();
    let Some(out::Frame::AckResult(answer)) = stream.hear().await.unwrap() else {
        panic!("then its answer")
    };
    assert_eq!(answer.results[0].committed, 43);

    // The application ends the stream: so does the session.
    drop(stream.to);
    tokio::time::timeout(PATIENCE, frames.closed())
        .await
        .expect("the member hears of the end");
    assert_eq!(stream.from.message().await.unwrap(), None);
}

#[tokio::test]
async fn an_accepted_acknowledgement_is_answered_only_if_it_is_not_owned() {
    let mut scene = Scene::start();
    let mut stream = Consumed::open(&scene).await;
    stream.say(start(100)).await;
    let _frames = opened(&mut scene).await;
    for (sequence, status) in [(41, AckStatus::Accepted), (42, AckStatus::NotOwned)] {
        stream
            .say(acked(sequence, proto::ack_request::Wait::Accepted))
            .await;
        let Some(Command::Ack {
            positions, reply, ..
        }) = scene.commands.recv().await
        else {
            panic!("an acknowledgement")
        };
        let result = AckResult {
            position: positions[0],
            status,
            committed: Sequence(0),
        };
        reply.send(Ok(vec![result])).unwrap();
    }
    let Some(out::Frame::AckResult(answer)) = stream.hear().await.unwrap() else {
        panic!("an answer")
    };
    assert_eq!(answer.results[0].sequence, 42, "41 is not answered");
}

#[tokio::test]
async fn an_application_that_does_not_read_can_still_acknowledge() {
    let mut scene = Scene::start();
    let stream = Consumed::open(&scene).await;
    stream.say(start(100)).await;
    let frames = opened(&mut scene).await;
    // More than all buffers on the way hold: the member's queue fills up.
    let feeding = async {
        loop {
            let batch = (0..4).map(|n| delivered(n + 1, &MEGABYTE));
            let batch = ConsumeFrame::Batch(batch.collect());
            if tokio::time::timeout(Duration::from_millis(300), frames.send(batch))
                .await
                .is_err()
            {
                break;
            }
        }
    };
    tokio::time::timeout(PATIENCE, feeding)
        .await
        .expect("the stream pushes back");
    for sequence in 1..=100 {
        stream
            .say(acked(sequence, proto::ack_request::Wait::Accepted))
            .await;
        let command = tokio::time::timeout(PATIENCE, scene.commands.recv()).await;
        let Some(Command::Ack { reply, .. }) = command.expect("it gets through") else {
            panic!("an acknowledgement")
        };
        reply.send(Ok(vec![])).unwrap();
    }
}

#[tokio::test]
async fn a_lost_connection_ends_the_session() {
    let mut scene = Scene::start();
    let stream = Consumed::open(&scene).await;
    stream.say(start(100)).await;
    let frames = opened(&mut scene).await;
    drop(stream);
    tokio::time::timeout(PATIENCE, frames.closed())
        .await
        .expect("the member hears of the end");
}

#[tokio::test]
async fn a_stream_begins_with_start_and_has_only_one() {
    let mut scene = Scene::start();
    let mut stream = Consumed::open(&scene).await;
    stream
        .say(acked(1, proto::ack_request::Wait::Accepted))
        .await;
    let status = stream.hear().await.unwrap_err();
    assert_eq!(status.code(), tonic::Code::InvalidArgument);
    assert!(status.message().contains("start"), "{status:?}");

    let mut stream = Consumed::open(&scene).await;
    stream.say(start(0)).await;
    let status = stream.hear().await.unwrap_err();
    assert!(
        status.message().starts_with("start.credit_messages"),
        "{status:?}"
    );

    let mut stream = Consumed::open(&scene).await;
    stream.say(start(100)).await;
    let _frames = opened(&mut scene).await;
    stream.say(start(100)).await;
    let status = stream.hear().await.unwrap_err();
    assert!(status.message().contains("only once"), "{status:?}");
}

#[tokio::test]
async fn a_member_that_ends_the_stream_is_heard_as_draining() {
    let mut scene = Scene::start();
    let mut stream = Consumed::open(&scene).await;
    stream.say(start(100)).await;
    drop(opened(&mut scene).await);
    let status = stream.hear().await.unwrap_err();
    assert_eq!(status.code(), tonic::Code::Unavailable);
    assert!(status.message().contains("draining"), "{status:?}");
}

#[tokio::test]
async fn a_large_batch_is_cut_into_frames_that_clients_take() {
    let mut scene = Scene::start();
    let mut stream = Consumed::open(&scene).await;
    stream.say(start(100)).await;
    let frames = opened(&mut scene).await;
    let batch = (0..12).map(|n| delivered(n + 1, &MEGABYTE[..400_000]));
    frames
        .send(ConsumeFrame::Batch(batch.collect()))
        .await
        .unwrap();
    let mut sequences = Vec::new();
    while sequences.len() < 12 {
        // A frame above 4 MiB would be refused by this client.
        let Some(out::Frame::Batch(batch)) = stream.hear().await.unwrap() else {
            panic!("a batch")
        };
        sequences.extend(batch.messages.iter().map(|m| m.sequence));
    }
    assert_eq!(sequences, (1..=12).collect::<Vec<_>>());
}
