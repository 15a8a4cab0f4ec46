//! What is stored in the bucket, in its order.

use std::sync::Arc;

use lockstep::group::decide::Reason;
use lockstep::group::{
    Assignment, Beat, GroupDocument, Incarnation, OffsetRecord, Partition, Standing,
};
use lockstep::wire::keys::Key;

use super::{Checker, Rule};
use crate::model::data::Data;
use crate::model::{Doc, Entry};
use crate::time::At;

// === impl Checker ===

impl Checker {
    /// A write of somebody other than the group's manager was stored.
    pub fn stored(&mut self, entry: &Entry, data: &Data) {
        match (&entry.key, &entry.doc) {
            (Key::Offset(partition), Doc::Offset(record)) => {
                self.record_stored(*partition, record, data);
            }
            (Key::Group, Doc::Group(document)) => self.document_stored(document),
            (Key::Member(member), Doc::Member(says)) => self.beat_stored(member, says.beat),
            _ => {}
        }
    }

    fn beat_stored(&mut self, member: &Incarnation, beat: Beat) {
        let (now, steady) = (self.now, self.bounds.session * 3 / 4);
        let entry = self
            .beats
            .entry(member.clone())
            .or_insert((now, now, Beat(0)));
        if beat <= entry.2 {
            return; // it lands late, after a newer one
        }
        entry.2 = beat;
        if now.since(entry.0) > steady {
            entry.1 = now;
        }
        entry.0 = now;
    }

    fn record_stored(&mut self, partition: Partition, record: &Arc<OffsetRecord>, data: &Data) {
        let before = self.records.insert(partition, (**record).clone());
        self.quiet_commits += u64::from(self.quiet_since.is_some());
        let Some(before) = before else {
            return;
        };
        self.judge_owner(partition, &before, record);
        self.judge_position(partition, &before, record, data);
    }

    fn judge_owner(&mut self, partition: Partition, before: &OffsetRecord, record: &OffsetRecord) {
        if record.epoch < before.epoch {
            let (was, is) = (before.epoch, record.epoch);
            self.broken(Rule::Exclusive, || {
                format!("{partition} was committed at epoch {is} after the claim of epoch {was}")
            });
        }
        if record.epoch == before.epoch && record.owner != before.owner {
            self.broken(Rule::Exclusive, || {
                let owners = (&before.owner, &record.owner);
                format!("{partition}@{} is written by two: {owners:?}", record.epoch)
            });
        }
        if record.epoch > before.epoch {
            self.tally.claims += 1;
            let granted = self.granted.get(&(partition, record.epoch));
            let to = granted.map(|(owner, _)| owner);
            if to != record.owner.as_ref() && !self.lossy {
                let to = to.cloned();
                self.broken(Rule::Exclusive, || {
                    format!(
                        "{partition}@{} was granted to {to:?} and claimed by {:?}",
                        record.epoch, record.owner
                    )
                });
            }
        } else {
            self.tally.commits += 1;
        }
    }

    fn judge_position(
        &mut self,
        partition: Partition,
        before: &OffsetRecord,
        record: &OffsetRecord,
        data: &Data,
    ) {
        let (was, is) = (before.next_seq.0, record.next_seq.0);
        let moved = self.moved.contains(&partition);
        if is != was && record.stream_created != before.stream_created {
            self.moved.remove(&partition);
        }
        if is < was && record.stream_created == before.stream_created && !moved {
            self.broken(Rule::NeverBack, || {
                format!("{partition} moved from {was} back to {is}")
            });
        }
        if record.stopped.is_some() {
            self.cut.remove(&partition);
        }
        let Some(stream) = data.stream(partition) else {
            return;
        };
        let of_this_history = record.stream_created == stream.created()
            && record.mark.is_none_or(|mark| {
                let at = stream.at(mark.seq.0);
                mark.seq.0 <= stream.last() && at.is_none_or(|stored| stored.ts == mark.ts)
            });
        if !of_this_history || moved {
            return;
        }
        let passed = data.messages(partition, was).take_while(|m| m.seq < is);
        let not_done = passed
            .filter(|m| !self.is_done(m.id))
            .map(|m| (m.seq, m.id))
            .next();
        if let Some((seq, id)) = not_done {
            self.broken(Rule::AtLeastOnce, || {
                format!("the commit of {partition} to {is} passes {partition}/{seq} (message {id}), which nobody has done")
            });
        }
    }

    fn document_stored(&mut self, document: &Arc<GroupDocument>) {
        self.tally.documents += 1;
        self.quiet_documents += u64::from(self.quiet_since.is_some());
        let before = self
            .document
            .replace((**document).clone())
            .unwrap_or_default();
        if document.term < before.term || document.epoch < before.epoch {
            let (was, is) = ((before.term, before.epoch), (document.term, document.epoch));
            self.broken(Rule::EpochsRise, || {
                format!("the document fell from {was:?} to {is:?}")
            });
        }
        if document.term == before.term && document.holder != before.holder {
            self.broken(Rule::Exclusive, || {
                format!("term {} has two holders", document.term)
            });
        }
        let nothing = Assignment::default();
        for (partition, is) in Partition::all(u32::MAX).zip(&document.partitions) {
            let was = before.assignment(partition).unwrap_or(&nothing);
            if is.epoch < was.epoch {
                self.broken(Rule::EpochsRise, || {
                    format!(
                        "the epoch of {partition} fell from {} to {}",
                        was.epoch, is.epoch
                    )
                });
            }
            if let Some(owner) = &is.owner {
                self.judge_grant((partition, is), owner, document);
            }
        }
    }

    fn judge_grant(
        &mut self,
        (partition, is): (Partition, &Assignment),
        owner: &Incarnation,
        document: &GroupDocument,
    ) {
        let fresh = (owner.clone(), is.unclean);
        let granted = self.granted.entry((partition, is.epoch)).or_insert(fresh);
        let first = granted.0.clone();
        if first != *owner {
            self.broken(Rule::Exclusive, || {
                format!(
                    "{partition}@{} was granted to {first} and to {owner}",
                    is.epoch
                )
            });
        }
        let standing = document.members.get(owner).map(|entry| entry.standing);
        if self.outdated.contains(owner) && standing == Some(Standing::Active) {
            self.broken(Rule::Eligible, || {
                format!("{owner} reads no format in use and owns {partition}")
            });
        }
    }

    /// A coordinator has decided upon a document, and tries to write it.
    pub fn decided(
        &mut self,
        now: At,
        before: Option<&GroupDocument>,
        (document, reasons): (&GroupDocument, &[Reason]),
    ) {
        let Some(before) = before.filter(|_| !self.lossy) else {
            return;
        };
        for reason in reasons {
            let Reason::Died(id) = reason else {
                continue;
            };
            let dead = before.members.iter().filter(|(member, entry)| {
                entry.id == *id && !document.members.contains_key(*member)
            });
            for (member, _) in dead {
                self.judge_death(now, member);
            }
        }
    }

    fn judge_death(&mut self, now: At, member: &Incarnation) {
        let session = self.bounds.session;
        let Some((last, steady_since, _)) = self.beats.get(member).copied() else {
            return;
        };
        if now.since(last) < session * 3 / 4 && now.since(steady_since) > session * 2 {
            self.broken(Rule::NeedlessEviction, || {
                let ago = now.since(last);
                format!("{member} was given up for dead {ago:?} after its last beat, though it beats steadily")
            });
        }
    }
}
