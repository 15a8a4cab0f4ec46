//! A worker's readers: consumers that are made, judged, followed and made again, as the real ones are.

use std::collections::BTreeMap;
use std::time::Duration;

use lockstep::group::member::{Event, Finding, Member};
use lockstep::group::validity::{Believed, Found, Validity};
use lockstep::group::{Epoch, Mark, OffsetRecord, Partition, Sequence, StopReason, Timestamp};

use crate::guard::Guard;
use crate::message::{Ask, Facts, Msg, News, ReaderId};
use crate::net::{Net, Who};
use crate::time::At;

/// All readers of a worker.
#[derive(Debug)]
pub struct Readers {
    who: Who,
    made: u64,
    open: BTreeMap<Partition, Reader>,
}

/// One partition being read.
#[derive(Debug)]
struct Reader {
    id: ReaderId,
    from: u64,
    record: Box<OffsetRecord>,
    last: Option<Mark>,
    delivered: Option<Mark>,
    /// Deliveries of the present consumer.
    received: u64,
    /// How many messages there is room for, and how many of these were asked for.
    room: u64,
    pulled: u64,
    stage: Stage,
    tries: u32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    Creating,
    Looking,
    Following,
    Waiting(At),
}

// === impl Reader ===

impl Reader {
    fn start(&self) -> u64 {
        let after = self.delivered.map_or(0, |mark| mark.seq.0 + 1);
        after.max(self.from).max(1)
    }

    fn believed(&self) -> Believed {
        Believed {
            next: Sequence(self.from),
            ..Believed::of(&self.record, self.delivered.or(self.last))
        }
    }

    fn finding(&self, facts: &Facts, reason: StopReason) -> Finding {
        Finding {
            reason,
            first: Sequence(facts.first),
            last: Sequence(facts.last),
            created: facts.created,
            position: self.believed().wanted(),
            last_mark: facts.last_mark,
            detail: format!("the stream holds {} to {}", facts.first, facts.last),
        }
    }
}

// === impl Readers ===

impl Readers {
    /// None yet.
    pub fn new(who: Who) -> Self {
        Self {
            who,
            made: 0,
            open: BTreeMap::new(),
        }
    }

    /// Opens one, in place of a former one.
    pub fn open(
        &mut self,
        net: &mut Net,
        (partition, epoch): (Partition, Epoch),
        (from, record, last, room): (u64, Box<OffsetRecord>, Option<Mark>, u64),
    ) {
        let mut reader = Reader {
            id: ReaderId {
                partition,
                epoch,
                attempt: 0,
            },
            from,
            record,
            last,
            delivered: None,
            received: 0,
            room,
            pulled: 0,
            stage: Stage::Creating,
            tries: 0,
        };
        Self::create(net, (self.who, &mut self.made), &mut reader);
        if let Some(former) = self.open.insert(partition, reader) {
            net.ask(self.who, Ask::Close(former.id));
        }
    }

    fn create(net: &mut Net, (who, made): (Who, &mut u64), reader: &mut Reader) {
        *made += 1;
        reader.id.attempt = *made;
        reader.received = 0;
        reader.stage = Stage::Creating;
        net.ask(who, Ask::Open(reader.id, reader.start()));
    }

    /// Stops one.
    pub fn close(&mut self, net: &mut Net, partition: Partition, epoch: Epoch) {
        if self
            .open
            .get(&partition)
            .is_some_and(|r| r.id.epoch == epoch)
            && let Some(reader) = self.open.remove(&partition)
        {
            net.ask(self.who, Ask::Close(reader.id));
        }
    }

    /// Stops all.
    pub fn close_all(&mut self, net: &mut Net) {
        for (_, reader) in std::mem::take(&mut self.open) {
            net.ask(self.who, Ask::Close(reader.id));
        }
    }

    /// All consumers are gone with the connection.
    pub fn all_broken(&mut self, net: &mut Net) {
        for reader in self.open.values_mut() {
            reader.wait(net);
        }
    }

    /// The application has taken so many messages out of the buffer.
    pub fn taken(&mut self, net: &mut Net, partition: Partition, messages: u64) {
        if messages == 0 {
            return;
        }
        if let Some(reader) = self.open.get_mut(&partition) {
            reader.room += messages;
            if reader.stage == Stage::Following {
                reader.pull(net, self.who);
            }
        }
    }

    /// When a consumer is made again.
    pub fn next_retry(&self) -> Option<At> {
        let waiting = self.open.values().filter_map(|reader| match reader.stage {
            Stage::Waiting(at) => Some(at),
            Stage::Creating | Stage::Looking | Stage::Following => None,
        });
        waiting.min()
    }

    /// Makes consumers again whose time has come.
    pub fn retry(&mut self, net: &mut Net) {
        for reader in self.open.values_mut() {
            if matches!(reader.stage, Stage::Waiting(at) if at <= net.now) && net.is_up(self.who) {
                Self::create(net, (self.who, &mut self.made), reader);
            } else if let Stage::Waiting(at) = &mut reader.stage
                && *at <= net.now
            {
                *at = net.now.after(Duration::from_millis(500));
            }
        }
    }

    /// Something came that may be a reader's.
    pub fn hear(
        &mut self,
        net: &mut Net,
        own: (&Member<Msg>, Timestamp),
        news: News,
    ) -> Option<Event<Msg>> {
        match news {
            News::Opened(id) => {
                let reader = self.current(id, Stage::Creating)?;
                reader.stage = Stage::Looking;
                let believed = reader.believed();
                let seq = |mark: Option<Mark>| mark.map(|m| m.seq.0);
                let ask = Ask::Look(id, seq(believed.mark), seq(believed.delivered));
                net.ask(self.who, ask);
                None
            }
            News::Looked(id, facts) => self.judge(net, own, (id, facts)),
            News::Messages(id, first, batch) => {
                let reader = self.current(id, Stage::Following)?;
                let (due, last) = (reader.received + 1, *batch.last()?);
                if first != due || batch.first().is_some_and(|m| m.seq < reader.start()) {
                    reader.wait(net);
                    return None;
                }
                let count = batch.len() as u64;
                reader.received += count;
                reader.room = reader.room.saturating_sub(count);
                reader.pulled = reader.pulled.saturating_sub(count);
                reader.tries = 0;
                reader.delivered = Some(Mark {
                    seq: Sequence(last.seq),
                    ts: last.ts,
                });
                Some(Event::Read {
                    partition: id.partition,
                    epoch: id.epoch,
                    batch,
                })
            }
            News::ReaderBroken(id) => {
                let reader = self.open.get_mut(&id.partition).filter(|r| r.id == id)?;
                reader.wait(net);
                None
            }
            News::Idle(id, scanned) => {
                self.current(id, Stage::Following)?;
                let next = Sequence(scanned).next();
                if own.0.wants_to_move((id.partition, id.epoch), next, own.1) {
                    net.ask(self.who, Ask::Scan(id, scanned));
                }
                None
            }
            News::Scanned(id, mark) => mark.map(|mark| Event::Scanned {
                partition: id.partition,
                epoch: id.epoch,
                next: mark.seq.next(),
                mark: Some(mark),
            }),
            _ => None,
        }
    }

    fn current(&mut self, id: ReaderId, stage: Stage) -> Option<&mut Reader> {
        let reader = self.open.get_mut(&id.partition)?;
        (reader.id == id && reader.stage == stage).then_some(reader)
    }

    /// The gate: asked after each creation, before the first delivery.
    fn judge(
        &mut self,
        net: &mut Net,
        (member, now): (&Member<Msg>, Timestamp),
        (id, facts): (ReaderId, Option<Facts>),
    ) -> Option<Event<Msg>> {
        let who = self.who;
        let reader = self.current(id, Stage::Looking)?;
        if !member.has_lease(now) {
            self.open.remove(&id.partition);
            net.ask(who, Ask::Close(id));
            return Some(Event::ReaderEnded {
                partition: id.partition,
                epoch: id.epoch,
                unreadable: None,
            });
        }
        let Some(facts) = facts else {
            reader.wait(net);
            return None;
        };
        let found = Found {
            created: facts.created,
            first: Sequence(facts.first),
            last: Sequence(facts.last),
            at_mark: facts.at_mark,
            at_delivered: facts.at_delivered,
        };
        let validity = if net.is_off(Guard::Validity) {
            Validity::Valid
        } else {
            reader.believed().check(&found)
        };
        let reason = match validity {
            Validity::Valid | Validity::Uncheckable => {
                reader.stage = Stage::Following;
                // What was on its way of the former consumer never came: there is room for it again.
                reader.pull(net, who);
                return None;
            }
            Validity::Overtaken { .. } => StopReason::MessagesLost,
            Validity::Truncated => StopReason::StreamTruncated,
            Validity::Recreated => StopReason::StreamRecreated,
        };
        let finding = reader.finding(&facts, reason);
        net.say(|| format!("{who}: {}@{} is {validity:?}", id.partition, id.epoch));
        self.open.remove(&id.partition);
        net.ask(who, Ask::Close(id));
        Some(Event::Invalid {
            partition: id.partition,
            epoch: id.epoch,
            finding,
        })
    }
}

// === impl Reader: waits and pulls ===

impl Reader {
    fn wait(&mut self, net: &mut Net) {
        self.tries = (self.tries + 1).min(7);
        let most = (50 << self.tries).min(5000);
        self.stage = Stage::Waiting(net.now.after(net.chance.millis(most / 2, most)));
        self.pulled = 0;
    }

    fn pull(&mut self, net: &mut Net, who: Who) {
        let more = self.room.saturating_sub(self.pulled);
        if more > 0 {
            self.pulled += more;
            net.ask(who, Ask::Pull(self.id, more));
        }
    }
}
