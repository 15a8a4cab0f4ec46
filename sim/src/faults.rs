//! What goes wrong in a world, when its plan says so.

use std::time::Duration;

use lockstep::group::{OffsetRecord, Partition};
use lockstep::wire::keys::Key;

use crate::application::Habits;
use crate::model::Doc;
use crate::net::{Event, Later, Who};
use crate::plan::Fault;
use crate::worker::Around;
use crate::world::World;

// === impl World ===

impl World {
    pub(crate) fn fault(&mut self, index: usize) {
        let Some((_, fault)) = self.plan.faults.get(index).copied() else {
            return;
        };
        self.net.say(|| format!("fault: {fault:?}"));
        match fault {
            Fault::KillMember
            | Fault::KillMemberBetweenSteps
            | Fault::StopMember
            | Fault::SuspendMember
            | Fault::CutMember
            | Fault::StallMember
            | Fault::KillApplication
            | Fault::ChangeApplication
            | Fault::Leave
            | Fault::Twin => self.fault_of_a_member(fault),
            Fault::KillCoordinator
            | Fault::StopCoordinator
            | Fault::SuspendCoordinator
            | Fault::CutCoordinator
            | Fault::StallCoordinator => self.fault_of_a_coordinator(fault),
            Fault::Retain | Fault::RemoveMark | Fault::Truncate | Fault::Recreate => {
                self.fault_of_a_stream(fault);
            }
            Fault::Elect => {
                let time = self.net.chance.millis(4000, 8000);
                self.bucket.elect(self.net.now, time);
            }
            Fault::BreakWatches => self.bucket.break_watches(&mut self.net),
            Fault::BreakConsumer => self.data.break_one(&mut self.net),
            Fault::StreamsAway => {
                let time = self.net.chance.millis(500, 6000);
                self.data.go_away(self.net.now.after(time));
            }
            Fault::LoseWrites => self.lose_writes(),
            Fault::ReplaceBucket => self.replace_the_bucket(),
            Fault::ChangeMeta => self.change_something(),
        }
    }

    /// How long something lasts: often short, sometimes beyond every timeout, never beyond the trouble.
    fn while_it_lasts(&mut self) -> Duration {
        let most = self
            .net
            .chance
            .pick(&[2000, 8000, 20_000, 45_000])
            .unwrap_or(2000);
        let time = self.net.chance.millis(100, most);
        time.min(crate::plan::CALM.since(self.net.now))
    }

    fn fault_of_a_member(&mut self, fault: Fault) {
        let all: Vec<Who> = self.workers.keys().copied().collect();
        let Some(who) = self.net.chance.pick(&all) else {
            return;
        };
        let Some(slot) = self.workers.get(&who).map(|worker| worker.slot) else {
            return;
        };
        let time = self.while_it_lasts();
        self.net.say(|| format!("  of {who}, {time:?}"));
        match fault {
            Fault::KillMember => self.bury_worker(who, slot),
            Fault::KillMemberBetweenSteps => {
                let steps = u32::try_from(self.net.chance.below(12)).unwrap_or(0);
                if let Some(worker) = self.workers.get_mut(&who) {
                    worker.dies_after = Some(steps);
                }
            }
            Fault::StopMember => self.net.stop(who, time),
            Fault::SuspendMember => {
                self.net.stop(who, time);
                if let Some(worker) = self.workers.get_mut(&who) {
                    worker.clock.stand_still(time);
                    worker.was_suspended = true;
                }
            }
            Fault::CutMember => self.cut(who, time),
            Fault::StallMember => {
                // Long enough, now and then, that a revocation is not seen before its time is over.
                let longer = self.net.chance.millis(0, 40_000);
                let time = (time + longer).min(crate::plan::CALM.since(self.net.now));
                self.bucket.stall(&mut self.net, who, time);
            }
            Fault::KillApplication | Fault::ChangeApplication => {
                self.fault_of_an_application(who, fault);
            }
            Fault::Leave => {
                let timeout = self.net.chance.millis(100, 15_000);
                let (net, checker, data) = (&mut self.net, &mut self.checker, &self.data);
                if let Some(worker) = self.workers.get_mut(&who) {
                    worker.drain(&mut Around { net, checker, data }, timeout);
                }
                self.after_worker(who);
            }
            _ => self.start_member(slot),
        }
    }

    fn fault_of_an_application(&mut self, who: Who, fault: Fault) {
        let habits = Habits::drawn(&mut self.net);
        let Some(application) = self.applications.get_mut(&who).filter(|it| !it.dead) else {
            return;
        };
        if fault == Fault::ChangeApplication {
            return application.change(habits);
        }
        application.die(&mut self.net);
        application.mourned = true;
        let wait = self.net.chance.millis(100, 8000);
        self.net
            .after(wait, Event::Later(Later::StartApplication(who)));
    }

    fn cut(&mut self, who: Who, time: Duration) {
        self.net.cut(who, time);
        self.bucket.forget_watch(who);
        self.data.forget(who);
    }

    fn fault_of_a_coordinator(&mut self, fault: Fault) {
        let all: Vec<Who> = self.coordinators.keys().copied().collect();
        let Some(who) = self.net.chance.pick(&all) else {
            return;
        };
        let time = self.while_it_lasts();
        self.net.say(|| format!("  of {who}, {time:?}"));
        match fault {
            Fault::KillCoordinator => {
                if let Some(slot) = self.coordinators.get(&who).map(|c| c.slot) {
                    self.bury_coordinator(who, slot, time);
                }
            }
            Fault::StopCoordinator => self.net.stop(who, time),
            Fault::SuspendCoordinator => {
                self.net.stop(who, time);
                if let Some(coordinator) = self.coordinators.get_mut(&who) {
                    coordinator.clock.stand_still(time);
                }
            }
            Fault::CutCoordinator => self.cut(who, time),
            _ => self.bucket.stall(&mut self.net, who, time),
        }
    }

    fn fault_of_a_stream(&mut self, fault: Fault) {
        let index = usize::try_from(self.net.chance.below(self.data.count() as u64)).unwrap_or(0);
        let Some(stream) = self.data.stream_mut(index) else {
            return;
        };
        let (first, last) = (stream.first(), stream.last());
        match fault {
            Fault::Retain => {
                let to = self.net.chance.between(first, last + 1);
                self.retain(index, to);
            }
            Fault::RemoveMark => {
                for partition in self.partitions_of(index) {
                    let mark = self.record(partition).and_then(|record| record.mark);
                    if let (Some(mark), Some(stream)) = (mark, self.data.stream_mut(index)) {
                        stream.remove(mark.seq.0);
                        self.checker.mark_was_removed(partition);
                    }
                }
            }
            Fault::Truncate => {
                let lost = self.net.chance.between(1, 30).min(last);
                self.net
                    .say(|| format!("  stream {index} ends at {}", last - lost));
                for partition in self.partitions_of(index) {
                    self.checker.stream_broke(partition, last - lost, false);
                }
                self.data.truncate(&mut self.net, index, last - lost);
            }
            _ => {
                self.net.say(|| format!("  stream {index} is made anew"));
                for partition in self.partitions_of(index) {
                    self.checker.stream_broke(partition, 0, true);
                }
                self.data.recreate(&mut self.net, index);
            }
        }
    }

    /// Retention removes everything below, read or not.
    fn retain(&mut self, index: usize, to: u64) {
        self.net.say(|| format!("  stream {index} begins at {to}"));
        for partition in self.partitions_of(index) {
            let record = self.record(partition);
            if record
                .as_ref()
                .and_then(|r| r.mark)
                .is_some_and(|mark| mark.seq.0 < to)
            {
                self.checker.mark_was_removed(partition);
            }
            let next = record.map_or(1, |record| record.next_seq.0);
            for message in self
                .data
                .messages(partition, next)
                .take_while(|m| m.seq < to)
            {
                self.checker.will_remove(message.id);
            }
        }
        if let Some(stream) = self.data.stream_mut(index) {
            stream.purge_below(to);
        }
    }

    fn partitions_of(&self, stream: usize) -> Vec<Partition> {
        let all = Partition::all(self.meta.partitions());
        all.filter(|p| self.data.index(*p) == stream).collect()
    }

    fn record(&self, partition: Partition) -> Option<OffsetRecord> {
        match self.bucket.newest(&Key::Offset(partition)) {
            Some(Doc::Offset(record)) => Some((**record).clone()),
            _ => None,
        }
    }

    fn lose_writes(&mut self) {
        let count = self.net.chance.between(1, 12);
        let lost = self.bucket.lose_the_newest(&mut self.net, count);
        self.net
            .say(|| format!("  {count} writes are lost, of {lost:?}"));
        self.checker.bucket_lost_writes();
        for key in lost {
            if let Key::Offset(partition) = key
                && self.bucket.newest(&key).is_none()
            {
                self.checker.record_was_lost(partition);
            }
        }
        let time = self.net.chance.millis(300, 2000);
        let all: Vec<Who> = self
            .workers
            .keys()
            .chain(self.coordinators.keys())
            .copied()
            .collect();
        for who in all {
            self.cut(who, time);
        }
    }

    fn replace_the_bucket(&mut self) {
        if !self.bucket.is_there {
            return;
        }
        self.bucket.delete(&mut self.net);
        let all: Vec<(Who, usize)> = self
            .coordinators
            .values()
            .map(|c| (c.who, c.slot))
            .collect();
        for (who, slot) in all {
            self.bury_coordinator(who, slot, Duration::from_secs(3));
        }
        let wait = self.net.chance.millis(100, 4000);
        self.net.after(wait, Event::Later(Later::MakeBucket));
    }

    fn change_something(&mut self) {
        let count = u64::from(self.meta.partitions());
        let partition = Partition(u32::try_from(self.net.chance.below(count)).unwrap_or(0));
        let what = self.net.chance.below(3);
        self.change_meta(|meta| match what {
            0 => drop(meta.pause.partitions.insert(partition)),
            1 => meta.pause.partitions.clear(),
            _ => {
                let generation = meta.generation;
                meta.resumed.insert(partition, generation);
            }
        });
    }
}
