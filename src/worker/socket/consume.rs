//! The stream of `Consume`: the application's frames in, the worker's frames out.
//!
//! One task per stream. Frames out wait in a short queue; while it is full the task goes on taking
//! frames in, so that an application that first writes all its acknowledgements and then reads is
//! not stuck. Acknowledgements are passed on in the order in which they came; those that wait for
//! their commit are answered later, in the same order.

use std::collections::VecDeque;
use std::future::{Future, pending, ready};
use std::pin::Pin;
use std::task::Poll;

use futures_util::stream::{FuturesOrdered, Stream, StreamExt};
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tonic::metadata::{Ascii, MetadataValue};
use tonic::{Status, Streaming};

use super::calls::Calls;
use super::convert::{self, Side, partition_epoch, time, wall_clock};
use super::limits;
use super::problem::{Code, Problem};
use crate::group::{Epoch, Partition};
use crate::wire::proto::consume_request::{self, Frame as In};
use crate::wire::proto::consume_response::{Batch, Frame as Out};
use crate::wire::proto::{self, ConsumeRequest, ConsumeResponse};
use crate::worker::{AckWait, CallError, ConsumeFrame, Consuming, Credit, Delivered, SessionId};
use crate::{chance, clock};

/// Frames between the member and the connection: enough to keep both busy.
const QUEUE: usize = 4;

/// Acknowledgements that may wait for their commit; further frames in wait until one is answered.
const WAITING: usize = 256;

type Sender = mpsc::Sender<Result<ConsumeResponse, Status>>;
type AckAnswer = Pin<Box<dyn Future<Output = Result<Option<Out>, CallError>> + Send>>;

/// One open stream.
struct Stage {
    calls: Calls,
    consuming: Consuming,
    out: VecDeque<Out>,
    answers: FuturesOrdered<AckAnswer>,
}

/// A stream is a session of its own: named by the caller, or by a name nobody else has.
pub(super) fn session(name: Option<&MetadataValue<Ascii>>) -> Result<SessionId, Problem> {
    match name {
        Some(name) => convert::session(Some(name.to_str().unwrap_or_default())),
        None => Ok(SessionId::new(format!("stream-{}", chance::name()))),
    }
}

/// Starts the stream's task and returns what it sends.
pub(super) fn start(
    calls: &Calls,
    session: SessionId,
    frames: Streaming<ConsumeRequest>,
) -> impl Stream<Item = Result<ConsumeResponse, Status>> + use<> {
    let (sender, receiver) = mpsc::channel(QUEUE);
    let stage = open_and_run(calls.clone(), session, frames, sender);
    calls.tasks.spawn("consume", |_| stage);
    ReceiverStream::new(receiver)
}

async fn open_and_run(
    calls: Calls,
    session: SessionId,
    mut frames: Streaming<ConsumeRequest>,
    sender: Sender,
) {
    let closing = calls.closing.clone();
    let ended = tokio::select! {
        ended = run(calls, session, &mut frames, &sender) => ended,
        () = closing.cancelled() => Err(CallError::Draining.into()),
        // The connection is gone, or the call was cancelled.
        () = sender.closed() => return,
    };
    if let Err(problem) = ended {
        // Nobody may be left to hear it.
        let _unheard = sender.send(Err(problem.into())).await;
    }
}

async fn run(
    calls: Calls,
    session: SessionId,
    frames: &mut Streaming<ConsumeRequest>,
    sender: &Sender,
) -> Result<(), Problem> {
    let credit = first(frames).await?;
    let consuming = calls.member.consume(session, credit).await?;
    let mut stage = Stage {
        calls,
        consuming,
        out: VecDeque::new(),
        answers: FuturesOrdered::new(),
    };
    loop {
        tokio::select! {
            permit = sender.reserve(), if !stage.out.is_empty() => {
                let (Ok(permit), Some(frame)) = (permit, stage.out.pop_front()) else {
                    return Ok(());
                };
                permit.send(Ok(ConsumeResponse { frame: Some(frame) }));
            }
            frame = stage.consuming.next(), if stage.out.is_empty() => {
                let Some(frame) = frame else { return Err(CallError::Draining.into()) };
                stage.told(frame);
            }
            answer = answered(&mut stage.answers) => stage.out.extend(answer?),
            frame = frames.next(), if stage.answers.len() < WAITING => match frame {
                Some(Ok(frame)) => stage.asked(frame).await?,
                // The application has said all it had to say, or is gone.
                None | Some(Err(_)) => break,
            }
        }
    }
    stage.finish(sender).await
}

/// The next answer in order; never, while nothing is waited for.
async fn answered(answers: &mut FuturesOrdered<AckAnswer>) -> Result<Option<Out>, CallError> {
    match answers.next().await {
        Some(answer) => answer,
        None => pending().await,
    }
}

/// The credit of the first frame, which must be Start.
async fn first(frames: &mut Streaming<ConsumeRequest>) -> Result<Credit, Problem> {
    let first = tokio::time::timeout(limits::PATIENCE, frames.next()).await;
    let Ok(first) = first else {
        let message = format!("no frame arrived within {} s", limits::PATIENCE.as_secs());
        return Err(Problem::new(Code::Timeout, message, "send start at once"));
    };
    let start = match first {
        Some(Ok(ConsumeRequest {
            frame: Some(In::Start(start)),
        })) => start,
        Some(Ok(_)) => {
            return Err(Problem::field(
                "frame",
                "must be start in the first message",
            ));
        }
        Some(Err(status)) => return Err(Problem::field("frame", status.message())),
        None => return Err(Problem::field("frame", "is missing: no start was sent")),
    };
    Ok(Credit {
        messages: within(
            "start.credit_messages",
            start.credit_messages,
            limits::MAX_CREDIT_MESSAGES,
        )?,
        bytes: within(
            "start.credit_bytes",
            start.credit_bytes,
            limits::MAX_CREDIT_BYTES,
        )?,
    })
}

fn within(field: &str, given: u64, most: u64) -> Result<u64, Problem> {
    if (1..=most).contains(&given) {
        return Ok(given);
    }
    Err(Problem::field(
        field,
        &format!("must be between 1 and {most}"),
    ))
}

// === impl Stage ===

impl Stage {
    /// Queues what the member says.
    fn told(&mut self, frame: ConsumeFrame) {
        match frame {
            ConsumeFrame::Assigned(all) => {
                let partitions = all.into_iter().map(|(p, e)| partition_epoch(p, e));
                self.out.push_back(Out::Assigned(proto::Assigned {
                    partitions: partitions.collect(),
                }));
            }
            ConsumeFrame::Revoking {
                partition,
                epoch,
                deadline,
            } => self.out.push_back(Out::Revoking(proto::Revoking {
                partitions: vec![partition_epoch(partition, epoch)],
                deadline: Some(time(wall_clock(clock::unix_now(), deadline, Side::Future))),
            })),
            ConsumeFrame::Revoked { partition, epoch } => {
                self.out.push_back(Out::Revoked(proto::Revoked {
                    partitions: vec![partition_epoch(partition, epoch)],
                    clean: None,
                }));
            }
            ConsumeFrame::Suspended => self.out.push_back(Out::Suspended(proto::Suspended {})),
            ConsumeFrame::Resumed => self.out.push_back(Out::Resumed(proto::Resumed {})),
            ConsumeFrame::Batch(messages) => self.out.extend(batches(messages)),
        }
    }

    /// Passes on what the application says.
    async fn asked(&mut self, frame: ConsumeRequest) -> Result<(), Problem> {
        match frame.frame {
            Some(In::Ack(request)) => self.ack(&request).await,
            Some(In::Nack(request)) => {
                let session = self.consuming.session();
                let answer = self.calls.nack(session, request).await?;
                self.answer_now(answer.results.into_iter().filter(is_not_owned).collect());
                Ok(())
            }
            Some(In::Credit(credit)) => self.credit(&credit).await,
            Some(In::Released(released)) => {
                for one in released.partitions {
                    let (partition, epoch) = (Partition(one.partition), Epoch(one.epoch));
                    self.consuming.released(partition, epoch).await?;
                }
                Ok(())
            }
            Some(In::Start(_)) => Err(Problem::field("frame", "must be start only once")),
            None => Err(Problem::field(
                "frame",
                "must be one of credit, ack, nack, released",
            )),
        }
    }

    async fn credit(&mut self, credit: &consume_request::Credit) -> Result<(), Problem> {
        for (field, given, most) in [
            (
                "credit.messages",
                credit.messages,
                limits::MAX_CREDIT_MESSAGES,
            ),
            ("credit.bytes", credit.bytes, limits::MAX_CREDIT_BYTES),
        ] {
            if given > most {
                return Err(Problem::field(field, &format!("must be at most {most}")));
            }
        }
        let credit = Credit {
            messages: credit.messages,
            bytes: credit.bytes,
        };
        Ok(self.consuming.add_credit(credit).await?)
    }

    async fn ack(&mut self, request: &proto::AckRequest) -> Result<(), Problem> {
        let positions = convert::positions("ack.positions", &request.positions)?;
        let mode = convert::ack_mode(request.mode)?;
        let session = self.consuming.session().clone();
        let wait = convert::ack_wait(request.wait)?;
        let member = self.calls.member.clone();
        let acking = async move { member.ack(&session, positions, mode, wait).await };
        match wait {
            AckWait::Accepted => {
                let results = convert::ack_results(acking.await?);
                self.answer_now(results.into_iter().filter(is_not_owned).collect());
            }
            AckWait::Committed => {
                let mut answering: AckAnswer = Box::pin(async move {
                    let results = convert::ack_results(acking.await?);
                    Ok(Some(Out::AckResult(proto::AckResponse { results })))
                });
                // Asked for now, before whatever the application says next; answered later.
                match futures_util::poll!(answering.as_mut()) {
                    Poll::Ready(answer) => self.answers.push_back(Box::pin(ready(answer))),
                    Poll::Pending => self.answers.push_back(answering),
                }
            }
        }
        Ok(())
    }

    /// Answers in its turn; nothing, if there is nothing to say.
    fn answer_now(&mut self, results: Vec<proto::AckResult>) {
        if !results.is_empty() {
            let answer = Out::AckResult(proto::AckResponse { results });
            self.answers.push_back(Box::pin(ready(Ok(Some(answer)))));
        }
    }

    /// The application has closed its side: answer what it still waits for.
    async fn finish(mut self, sender: &Sender) -> Result<(), Problem> {
        while let Some(answer) = self.answers.next().await {
            let Some(frame) = answer? else { continue };
            let frame = ConsumeResponse { frame: Some(frame) };
            if sender.send(Ok(frame)).await.is_err() {
                break;
            }
        }
        Ok(())
    }
}

fn is_not_owned(result: &proto::AckResult) -> bool {
    result.status() == proto::ack_result::Status::NotOwned
}

/// One frame for all, or several where it would be large.
fn batches(messages: Vec<Delivered>) -> Vec<Out> {
    let mut all = Vec::new();
    let mut batch = Batch::default();
    let mut bytes = 0;
    for delivered in messages {
        let size = delivered.size();
        if bytes + size > limits::MAX_BATCH_BYTES && !batch.messages.is_empty() {
            all.push(Out::Batch(std::mem::take(&mut batch)));
            bytes = 0;
        }
        bytes += size;
        batch.messages.push(convert::message(delivered));
    }
    if !batch.messages.is_empty() {
        all.push(Out::Batch(batch));
    }
    all
}
