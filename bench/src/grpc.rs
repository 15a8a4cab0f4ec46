//! The application in Rust over gRPC `Consume`, into a counter, with acknowledgements.

use std::collections::BTreeMap;
use std::path::Path;

use hyper_util::rt::TokioIo;
use lockstep::wire::proto::consume_request::{Credit, Frame as Say, Start};
use lockstep::wire::proto::consume_response::Frame as Hear;
use lockstep::wire::proto::worker_client::WorkerClient;
use lockstep::wire::proto::{
    AckRequest, ConsumeRequest, ConsumeResponse, Message, Position, ack_request, ack_result,
};
use lockstep_e2e::clock;
use lockstep_e2e::scene::{Outcome, SceneError};
use tokio::net::UnixStream;
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tonic::Streaming;
use tonic::transport::{Channel, Endpoint};
use tower::service_fn;

use crate::tally::{Enough, Pace, Tally};

/// Bytes of credit, and of the window of HTTP/2: never what holds a batch up.
const BYTES: u64 = 64 << 20;
const HTTP2_WINDOW: u32 = 4 << 20;

/// Frames that may wait to be sent.
const FRAMES: usize = 16;

/// An open `Consume` stream.
#[derive(Debug)]
pub(crate) struct Consume {
    say: mpsc::Sender<ConsumeRequest>,
    hear: Streaming<ConsumeResponse>,
}

/// Reads until it is enough, and has the last acknowledgements committed.
pub(crate) async fn read(socket: &Path, credit: u64, enough: Enough) -> Outcome<Pace> {
    let mut consume = Consume::open(socket, credit).await?;
    let mut tally = Tally::until(enough);
    let mut last = BTreeMap::new();
    while let Some(frame) = consume.next().await? {
        let Hear::Batch(batch) = frame else { continue };
        let goes_on = tally.note(batch.messages.len() as u64, clock::now());
        consume.done_with(&batch.messages, &mut last).await?;
        if !goes_on {
            break;
        }
    }
    consume.committed(last).await?;
    tally
        .pace()
        .ok_or_else(|| SceneError::new("nothing was handed over"))
}

/// A client of the worker's socket with wide windows.
pub(crate) async fn client(socket: &Path) -> Outcome<WorkerClient<Channel>> {
    let socket = socket.to_owned();
    let connect = service_fn(move |_| {
        let socket = socket.clone();
        async move { Ok::<_, std::io::Error>(TokioIo::new(UnixStream::connect(socket).await?)) }
    });
    let channel = Endpoint::from_static("http://worker")
        .initial_stream_window_size(HTTP2_WINDOW)
        .initial_connection_window_size(HTTP2_WINDOW)
        .connect_with_connector(connect)
        .await?;
    Ok(WorkerClient::new(channel).max_decoding_message_size(16 << 20))
}

// === impl Consume ===

impl Consume {
    /// Opens a stream with this credit of messages.
    pub(crate) async fn open(socket: &Path, credit: u64) -> Outcome<Self> {
        let mut client = client(socket).await?;
        let (say, said) = mpsc::channel(FRAMES);
        let start = Say::Start(Start {
            credit_messages: credit,
            credit_bytes: BYTES,
        });
        say.send(frame(start)).await?;
        let hear = client.consume(ReceiverStream::new(said)).await?;
        Ok(Self {
            say,
            hear: hear.into_inner(),
        })
    }

    /// What the worker says next; none once it has ended the stream.
    pub(crate) async fn next(&mut self) -> Outcome<Option<Hear>> {
        loop {
            match self.hear.message().await? {
                Some(ConsumeResponse { frame: None }) => {}
                Some(ConsumeResponse { frame }) => return Ok(frame),
                None => return Ok(None),
            }
        }
    }

    /// Acknowledges a batch and asks for as much again. `last` keeps the newest of each partition.
    pub(crate) async fn done_with(
        &self,
        messages: &[Message],
        last: &mut BTreeMap<u32, Position>,
    ) -> Outcome<()> {
        let mut newest = BTreeMap::new();
        for message in messages {
            newest.insert(message.partition, position(message));
        }
        let bytes = messages.iter().map(size).sum();
        let positions: Vec<Position> = newest.values().copied().collect();
        last.append(&mut newest);
        self.acknowledge(positions, ack_request::Wait::Accepted)
            .await?;
        let credit = Credit {
            messages: messages.len() as u64,
            bytes,
        };
        Ok(self.say.send(frame(Say::Credit(credit))).await?)
    }

    /// Waits until everything up to these is committed.
    async fn committed(mut self, last: BTreeMap<u32, Position>) -> Outcome<()> {
        let positions = last.into_values().collect();
        self.acknowledge(positions, ack_request::Wait::Committed)
            .await?;
        while let Some(heard) = self.next().await? {
            let Hear::AckResult(answer) = heard else {
                continue;
            };
            let is_committed =
                |r: &lockstep::wire::proto::AckResult| r.status() == ack_result::Status::Committed;
            if answer.results.iter().all(is_committed) {
                return Ok(());
            }
            return Err(SceneError::new(format!("not committed: {answer:?}")));
        }
        Err(SceneError::new("the stream ended before the last commit"))
    }

    async fn acknowledge(&self, positions: Vec<Position>, wait: ack_request::Wait) -> Outcome<()> {
        let ack = AckRequest {
            positions,
            mode: ack_request::Mode::UpTo.into(),
            wait: wait.into(),
        };
        Ok(self.say.send(frame(Say::Ack(ack))).await?)
    }
}

fn frame(frame: Say) -> ConsumeRequest {
    ConsumeRequest { frame: Some(frame) }
}

fn position(message: &Message) -> Position {
    Position {
        partition: message.partition,
        epoch: message.epoch,
        sequence: message.sequence,
    }
}

/// As the worker counts credit.
fn size(message: &Message) -> u64 {
    (message.payload.len() + message.subject.len()) as u64
}
