//! What `meta` and `group` say, and what follows for what is held. P31, P32, P72, P78, P79, P95

use super::super::ledger::Message;
use super::super::{
    Assignment, Epoch, GroupDocument, GroupState, Meta, Partition, Released, Revision, Timestamp,
};
use super::{Life, Member, MemberEvent};

// === impl Member ===

impl<M: Message> Member<M> {
    pub(super) fn take_meta(&mut self, revision: Revision, meta: Box<Meta>, now: Timestamp) {
        self.damage.remove("meta");
        if self.bucket().is_some_and(|bucket| *bucket != meta.bucket) {
            return self.be_born_again(); // P33
        }
        self.highest = self.highest.max(revision);
        if self
            .meta
            .as_ref()
            .is_some_and(|(known, _)| revision < *known)
        {
            return; // an old delivery
        }
        if self.meta.is_none() {
            self.speak = true;
        }
        self.meta = Some((revision, *meta));
        let rules = self.rules();
        let held: Vec<Partition> = self.holds.keys().copied().collect();
        for partition in held {
            let ledger = self.holds.get_mut(&partition).and_then(|h| h.ledger_mut());
            if let (Some(ledger), Some(rules)) = (ledger, rules) {
                ledger.follow(rules);
            }
            self.mind_the_timer(partition, now);
            self.lift_if_resumed(partition, now);
        }
        self.follow_the_document(now);
        self.tend_all(now);
    }

    pub(super) fn take_group(
        &mut self,
        revision: Revision,
        document: GroupDocument,
        now: Timestamp,
    ) {
        self.damage.remove("group");
        self.highest = self.highest.max(revision);
        let edition = (document.term, document.epoch);
        if edition < self.seen {
            return; // P32
        }
        self.seen = edition;
        self.document = Some(document);
        self.follow_the_document(now);
    }

    /// Follows the newest group document, if it may be followed yet. P30, P31
    pub(super) fn follow_the_document(&mut self, now: Timestamp) {
        let (Some((_, meta)), Some(document)) = (&self.meta, &self.document) else {
            return;
        };
        if self.echoed.is_none() || document.meta_generation > meta.generation {
            return;
        }
        let deleted = meta.state == GroupState::Deleted;
        if let Some(document) = self.document.take() {
            self.take_standing(&document);
            self.drop_what_is_not_ours(&document);
            self.take_what_is_ours(&document, deleted, now);
            self.document = Some(document);
        }
    }

    fn take_standing(&mut self, document: &GroupDocument) {
        let standing = document
            .members
            .get(&self.identity.incarnation)
            .map(|entry| entry.standing);
        self.seen_epoch = document.epoch;
        if self.standing.is_none() && standing.is_some() {
            self.tell(MemberEvent::Joined {
                epoch: document.epoch,
            });
        }
        self.standing = standing;
    }

    fn drop_what_is_not_ours(&mut self, document: &GroupDocument) {
        self.released.retain(|partition, released| {
            document
                .assignment(*partition)
                .is_some_and(|a| a.epoch <= released.epoch)
        });
        let me = &self.identity.incarnation;
        let gone: Vec<Partition> = self
            .holds
            .iter()
            .filter(|(partition, hold)| {
                !document
                    .assignment(**partition)
                    .is_some_and(|a| a.owner.as_ref() == Some(me) && a.epoch == hold.epoch)
            })
            .map(|(partition, _)| *partition)
            .collect();
        for partition in gone {
            self.forget(partition);
        }
    }

    fn take_what_is_ours(&mut self, document: &GroupDocument, deleted: bool, now: Timestamp) {
        let me = self.identity.incarnation.clone();
        for (partition, assignment) in document.owned_by(&me) {
            let epoch = assignment.epoch;
            if self
                .released
                .get(&partition)
                .is_some_and(|r| r.epoch >= epoch)
            {
                continue; // P75
            }
            let goes = assignment.is_being_revoked() || deleted || self.life != Life::Here;
            match (self.holds.contains_key(&partition), goes) {
                (true, true) => self.revoke(partition, now),
                (true, false) => self.keep(partition, now),
                (false, true) => self.refuse(partition, epoch),
                (false, false) => self.claim_granted(partition, assignment, now),
            }
        }
    }

    fn claim_granted(&mut self, partition: Partition, granted: &Assignment, now: Timestamp) {
        self.begin_claim((partition, granted.epoch), granted.unclean, now);
        self.tend(partition, now);
    }

    /// Stops feeding; what the application has may be finished. P73, P77
    pub(super) fn revoke(&mut self, partition: Partition, now: Timestamp) {
        let Some(membership) = self.meta.as_ref().map(|(_, meta)| &meta.membership) else {
            return;
        };
        let early = membership.heartbeat_interval * 2;
        let mut deadline = now.after(membership.rebalance_timeout.saturating_sub(early));
        if let Life::Leaving(at) = self.life {
            deadline = deadline.min(at);
        }
        let Some(hold) = self.holds.get_mut(&partition) else {
            return;
        };
        let first = hold.revoking.is_none();
        hold.revoking = Some(hold.revoking.map_or(deadline, |at| at.min(deadline)));
        let (epoch, until) = (hold.epoch, hold.revoking);
        if first {
            let deadline = until.unwrap_or(now).remaining(now);
            self.tell(MemberEvent::Revoking {
                partition,
                epoch,
                deadline,
            });
        }
        self.tend(partition, now);
    }

    /// The revocation, if there was one, is withdrawn. P79
    fn keep(&mut self, partition: Partition, now: Timestamp) {
        let Some(hold) = self.holds.get_mut(&partition) else {
            return;
        };
        if hold.giving_up || hold.revoking.take().is_none() {
            return;
        }
        let epoch = hold.epoch;
        self.tell(MemberEvent::Kept { partition, epoch });
        self.tend(partition, now);
    }

    /// Gives back at once what was never begun. P78
    fn refuse(&mut self, partition: Partition, epoch: Epoch) {
        let clean = true;
        self.released.insert(
            partition,
            Released {
                partition,
                epoch,
                clean,
            },
        );
        self.speak = true;
    }

    /// The document does not give it to this member any more.
    pub(super) fn forget(&mut self, partition: Partition) {
        if let Some(epoch) = self.let_go(partition) {
            self.tell(MemberEvent::Revoked {
                partition,
                epoch,
                clean: false,
            });
        }
    }
}
