//! What stands in the simulated bucket: the core's documents as they are, without their bytes.

use std::fmt;
use std::sync::Arc;

use lockstep::group::{CandidateDocument, GroupDocument, MemberDocument, Meta, OffsetRecord};
use lockstep::wire::keys::Key;

/// A document.
#[derive(Clone, Debug)]
pub enum Doc {
    /// Of `meta`.
    Meta(Arc<Meta>),
    /// Of `group`.
    Group(Arc<GroupDocument>),
    /// Of `member.<incarnation>`.
    Member(Arc<MemberDocument>),
    /// Of `candidate.<incarnation>`.
    Candidate(Arc<CandidateDocument>),
    /// Of `offset.<p>`.
    Offset(Arc<OffsetRecord>),
}

/// A value with its key and revision.
#[derive(Clone, Debug)]
pub struct Entry {
    /// Its revision.
    pub revision: u64,
    /// Its key.
    pub key: Key,
    /// The value.
    pub doc: Doc,
}

// === impl Doc ===

impl fmt::Display for Doc {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Meta(meta) => write!(f, "generation {}, bucket {}", meta.generation, meta.bucket),
            Self::Group(d) => {
                write!(f, "term {} epoch {} seeded {} [", d.term, d.epoch, d.seeded)?;
                let name = |m: &Option<lockstep::group::Incarnation>| {
                    m.as_ref()
                        .map_or_else(|| "-".to_owned(), ToString::to_string)
                };
                for a in &d.partitions {
                    let flag = if a.unclean { "!" } else { "" };
                    write!(
                        f,
                        " {}@{}{flag}>{}",
                        name(&a.owner),
                        a.epoch,
                        name(&a.target)
                    )?;
                }
                f.write_str(" ] members")?;
                for (member, entry) in &d.members {
                    write!(f, " {member}:{:?}", entry.standing)?;
                }
                write!(f, " because {}", d.reason)
            }
            Self::Member(d) => {
                write!(f, "beat {} {:?} seen {}", d.beat, d.state, d.seen_epoch)?;
                for h in &d.held {
                    write!(
                        f,
                        " {}@{}:{:?}/{}",
                        h.partition, h.epoch, h.state, h.committed
                    )?;
                }
                for r in &d.released {
                    let how = if r.clean { "clean" } else { "unclean" };
                    write!(f, " released {}@{} {how}", r.partition, r.epoch)?;
                }
                Ok(())
            }
            Self::Candidate(d) => write!(f, "beat {}{}", d.beat, if d.left { " left" } else { "" }),
            Self::Offset(r) => {
                let owner = r.owner.as_ref().map_or("-", |o| o.as_str());
                write!(f, "next {} by {owner}@{}", r.next_seq, r.epoch)?;
                if let Some(mark) = &r.mark {
                    write!(f, " mark {}", mark.seq)?;
                }
                if let Some(head) = &r.head {
                    write!(f, " head {}x{}", head.seq, head.attempts)?;
                }
                r.stopped
                    .as_ref()
                    .map_or(Ok(()), |s| write!(f, " stopped {:?}", s.reason))
            }
        }
    }
}
