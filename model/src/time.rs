//! Time passes: more than any timeout, in beats.

use lockstep::group::member::Event;

use crate::bounds::Sabotage;
use crate::bucket::Key;
use crate::settings::{BEAT, BEATS_PER_STEP};
use crate::state::{Constants, Cut, State};
use crate::worker::Answer;

/// Deliveries within one beat; more would be a group that never comes to rest.
const ROUNDS: u32 = 50;

impl State {
    /// More than a session timeout passes. Whoever is not cut off beats, sees everything, and has its
    /// requests answered; who is cut off gets no answers, is not heard, and comes back at the end.
    /// Coordinators that were not cut off decide then.
    pub(crate) fn pass(&mut self, cut: Cut, constants: &Constants) {
        for _ in 0..BEATS_PER_STEP {
            self.now = self.now.after(BEAT);
            self.coordinators_beat(cut, constants);
            self.members_beat(cut, constants);
            for _ in 0..ROUNDS {
                if !self.everybody_sees(cut, constants) {
                    break;
                }
            }
        }
        for c in 0..self.coordinators.len() {
            if cut == Cut::Coordinator(c) {
                self.give_up_document(c);
                self.coordinator_looks_up(c, constants);
            } else {
                self.coordinator_turns(c, constants);
            }
        }
    }

    fn coordinators_beat(&mut self, cut: Cut, constants: &Constants) {
        for c in 0..self.coordinators.len() {
            if cut == Cut::Coordinator(c) || !self.coordinators.get(c).is_some_and(|it| it.runs) {
                continue;
            }
            self.coordinator_writes(c, constants);
            if let Some(candidate) = self.bucket.candidates.get_mut(c) {
                candidate.change(|says| says.beat = says.beat.next());
            }
            self.announce(Key::Candidate(c));
        }
    }

    fn members_beat(&mut self, cut: Cut, constants: &Constants) {
        for m in 0..self.workers.len() {
            if !self.workers.get(m).is_some_and(|w| w.runs()) {
                continue;
            }
            let now = self.now;
            if cut == Cut::Member(m) {
                self.cut_off(m, constants);
                continue;
            }
            while self.workers.get(m).is_some_and(|w| !w.requests.is_empty()) {
                self.answer(m, 0, constants);
            }
            self.with_worker(m, |worker| {
                worker.time_is(now);
                worker.happens([Event::Deadline])
            });
        }
    }

    /// A member gets no answers, its clock goes on, and nobody hears what it says.
    fn cut_off(&mut self, m: usize, constants: &Constants) {
        let Some(worker) = self.workers.get_mut(m) else {
            return;
        };
        let requests = worker.change(|worker| std::mem::take(&mut worker.requests));
        for request in &requests {
            if let Some(write) = request.write.clone() {
                self.bucket.give_up(write);
            }
        }
        let now = self.now;
        worker.change(|worker| {
            for request in requests {
                let answer = Answer::none_to(&request);
                worker.answered(&request, answer);
            }
            if constants.sabotage != Sabotage::ClocksStandStill {
                worker.time_is(now);
            }
            worker.happens([Event::Deadline]);
        });
    }

    /// Everybody's watch is emptied; answers whether there was anything in it.
    fn everybody_sees(&mut self, cut: Cut, constants: &Constants) -> bool {
        let mut any = false;
        let (bucket, now) = (&self.bucket, self.now);
        for (c, coordinator) in self.coordinators.iter_mut().enumerate() {
            if cut != Cut::Coordinator(c) && !coordinator.watch.is_empty() {
                any = true;
                coordinator.change(|it| it.see_all(bucket, &constants.members, now));
            }
        }
        for m in 0..self.workers.len() {
            while cut != Cut::Member(m) && self.has_news(m) {
                any = true;
                self.member_sees(m, constants);
            }
        }
        any
    }
}
