//! A model of a group that keeps its promises, and writes its history.

use std::collections::VecDeque;

use crate::history::{Ack, Record};

/// Between any two records: more than the judge tolerates between clocks.
pub(super) const TICK: u64 = 1_000_000_000;

/// What can happen to a partition of the model.
#[derive(Clone, Copy, Debug)]
pub(super) enum Op {
    Publish,
    See,
    Ack,
    Commit,
    Clean,
    Unclean,
    RestartApplication,
    Nack,
}

/// A group whose members are `m0`, `m1`, …, with a window per partition.
#[derive(Debug)]
pub(super) struct Model {
    pub(super) records: Vec<Record>,
    window: usize,
    now: u64,
    stream: u64,
    revision: u64,
    sessions: u64,
    partitions: Vec<Partition>,
}

#[derive(Clone, Debug)]
struct Partition {
    index: u32,
    messages: Vec<Message>,
    next: usize,
    in_hand: Vec<usize>,
    again: VecDeque<usize>,
    done: usize,
    committed: u64,
    epoch: u64,
    session: u64,
    acks: u64,
}

#[derive(Clone, Debug)]
struct Message {
    sequence: u64,
    key: String,
    n: u64,
}

impl Model {
    pub(super) fn new(partitions: u32, window: usize) -> Self {
        let (records, now) = (Vec::new(), TICK);
        let mut model = Self {
            records,
            window,
            now,
            stream: 0,
            revision: 0,
            sessions: 0,
            partitions: Vec::new(),
        };
        for index in 0..partitions {
            model.partitions.push(Partition::new(index));
            model.write_offset(index, 0, "seed");
            model.hand_over(index, false);
        }
        model
    }

    /// A history of one partition: the operations, and then everything is done.
    pub(super) fn history(window: usize, ops: &[Op]) -> Vec<Record> {
        let ops: Vec<(u32, Op)> = ops.iter().map(|op| (0, *op)).collect();
        Self::run(1, window, &ops)
    }

    pub(super) fn run(partitions: u32, window: usize, ops: &[(u32, Op)]) -> Vec<Record> {
        let mut model = Self::new(partitions, window);
        for (partition, op) in ops {
            model.step(partition % partitions, *op);
        }
        for partition in 0..partitions {
            model.finish(partition);
        }
        model.records
    }

    fn step(&mut self, index: u32, op: Op) {
        match op {
            Op::Publish => self.publish(index),
            Op::See => self.see(index),
            Op::Ack => self.ack(index),
            Op::Commit => self.commit(index),
            Op::Clean => {
                let partition = self.at(index);
                if partition.in_hand.is_empty() && partition.again.is_empty() {
                    self.commit(index);
                    self.hand_over(index, false);
                }
            }
            Op::Unclean => self.hand_over(index, true),
            Op::RestartApplication => self.restart(index),
            Op::Nack => self.nack(index),
        }
    }

    fn finish(&mut self, index: u32) {
        while self.at(index).done < self.at(index).messages.len() {
            self.see(index);
            self.ack(index);
        }
        self.commit(index);
    }

    fn at(&mut self, index: u32) -> &mut Partition {
        &mut self.partitions[index as usize]
    }

    fn tick(&mut self) -> u64 {
        self.now += TICK;
        self.now
    }

    fn publish(&mut self, index: u32) {
        self.stream += 1;
        let (sequence, at) = (self.stream, self.tick());
        let partition = self.at(index);
        let count = partition.messages.len() as u64;
        let key = format!("k{index}-{}", count % 2);
        let message = Message {
            sequence,
            key: key.clone(),
            n: count / 2 + 1,
        };
        let n = message.n;
        partition.messages.push(message);
        let stream = "S".to_owned();
        self.records.push(Record::Published {
            stream,
            sequence,
            partition: index,
            key,
            n,
            at,
        });
    }

    fn see(&mut self, index: u32) {
        let (window, at) = (self.window, self.tick());
        let partition = self.at(index);
        let which = match partition.again.pop_front() {
            Some(which) => which,
            None if partition.in_hand.len() < window
                && partition.next < partition.messages.len() =>
            {
                partition.next += 1;
                partition.next - 1
            }
            None => return,
        };
        partition.in_hand.push(which);
        let Message { sequence, key, n } = partition.messages[which].clone();
        let seen = Record::Seen {
            member: partition.member(),
            session: partition.session(),
            partition: index,
            epoch: partition.epoch,
            sequence,
            key,
            n,
            attempt: 1,
            at,
        };
        self.records.push(seen);
    }

    fn ack(&mut self, index: u32) {
        let Some(upto) = self.at(index).in_hand.last().copied() else {
            return;
        };
        if self
            .at(index)
            .again
            .front()
            .is_some_and(|first| *first < upto)
        {
            return;
        }
        let ack = self.next_ack(index, upto);
        let partition = self.at(index);
        partition.in_hand.clear();
        partition.done = partition.done.max(upto + 1);
        self.records.push(Record::Acking(ack.clone()));
        let at = self.tick();
        self.records.push(Record::Acked(Ack { at, ..ack }));
    }

    fn nack(&mut self, index: u32) {
        let Some(first) = self.at(index).in_hand.first().copied() else {
            return;
        };
        let ack = self.next_ack(index, first);
        let partition = self.at(index);
        partition.give_back();
        self.records.push(Record::Nacking(ack));
    }

    fn restart(&mut self, index: u32) {
        self.sessions += 1;
        let session = self.sessions;
        let partition = self.at(index);
        partition.give_back();
        partition.session = session;
    }

    fn next_ack(&mut self, index: u32, which: usize) -> Ack {
        let at = self.tick();
        let partition = self.at(index);
        partition.acks += 1;
        Ack {
            member: partition.member(),
            session: partition.session(),
            ack: partition.acks,
            partition: index,
            epoch: partition.epoch,
            sequence: partition.messages[which].sequence,
            at,
        }
    }

    fn commit(&mut self, index: u32) {
        let partition = self.at(index);
        let reached = partition.reached();
        if reached > partition.committed {
            partition.committed = reached;
            let owner = partition.incarnation();
            let epoch = partition.epoch;
            self.write_offset(index, epoch, &owner);
        }
    }

    fn write_offset(&mut self, partition: u32, epoch: u64, owner: &str) {
        self.revision += 1;
        let (revision, at) = (self.revision, self.tick());
        let next_seq = self.at(partition).committed;
        let owner = owner.to_owned();
        self.records.push(Record::Commit {
            partition,
            epoch,
            owner,
            next_seq,
            revision,
            at,
        });
    }

    fn hand_over(&mut self, index: u32, unclean: bool) {
        self.sessions += 1;
        self.revision += 1;
        let (session, revision, at) = (self.sessions, self.revision, self.tick());
        let partition = self.at(index);
        partition.epoch += 1;
        partition.session = session;
        partition.in_hand.clear();
        partition.again.clear();
        let committed = partition.committed;
        partition.done = partition
            .messages
            .partition_point(|m| m.sequence < committed);
        partition.next = partition.done;
        let (epoch, owner, id) = (partition.epoch, partition.incarnation(), partition.member());
        self.records.push(Record::Member {
            incarnation: owner.clone(),
            id,
        });
        let partition = index;
        let grant = Record::Granted {
            partition,
            epoch,
            owner: owner.clone(),
            unclean,
            revision,
            at,
        };
        self.records.push(grant);
        self.write_offset(index, epoch, &owner);
    }
}

impl Partition {
    fn new(index: u32) -> Self {
        Self {
            index,
            messages: Vec::new(),
            next: 0,
            in_hand: Vec::new(),
            again: VecDeque::new(),
            done: 0,
            committed: 1,
            epoch: 0,
            session: 0,
            acks: 0,
        }
    }

    fn member(&self) -> String {
        format!("m{}", (self.epoch + u64::from(self.index)) % 3)
    }

    fn incarnation(&self) -> String {
        format!("{}-{}", self.member(), self.epoch)
    }

    fn session(&self) -> String {
        format!("s{}", self.session)
    }

    fn give_back(&mut self) {
        let mut again: Vec<usize> = self.in_hand.drain(..).chain(self.again.drain(..)).collect();
        again.sort_unstable();
        self.again = again.into();
    }

    /// Everything below is acknowledged.
    fn reached(&self) -> u64 {
        self.done
            .checked_sub(1)
            .map_or(self.committed, |last| self.messages[last].sequence + 1)
    }
}
