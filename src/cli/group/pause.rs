//! `lockstep group pause | resume`

use std::collections::BTreeSet;

use clap::Args;

use super::change::{Changed, change, is_managed, refuse_if_managed};
use super::read;
use crate::cli::{CommonFlags, Failure, Runs, output, server};
use crate::coordinator::standstill::{Which, stopped};
use crate::group::{GroupRef, Meta, Partition};
use crate::nats::Bucket;

/// Pause a group, or some of its partitions
#[derive(Args, Debug)]
#[command(
    after_help = "Feeding stops; ownership, heartbeats, acknowledgements and commits go on.\n\
                  Example: lockstep group pause shop/orders --partitions 0,3"
)]
pub(super) struct PauseFlags {
    #[command(flatten)]
    which: WhichFlags,
}

/// Resume a group, or some of its partitions
#[derive(Args, Debug)]
#[command(
    after_help = "Partitions that stand still (MessageStuck, MessagesLost, ...) start again, too.\n\
                  Example: lockstep group resume shop/orders"
)]
pub(super) struct ResumeFlags {
    #[command(flatten)]
    which: WhichFlags,
}

#[derive(Args, Debug)]
struct WhichFlags {
    /// The group, [NAMESPACE/]NAME
    #[arg(value_name = "NAME")]
    group: GroupRef,
    /// Only these, as 0,3 [default: all]
    #[arg(
        long,
        env = "LOCKSTEP_PARTITIONS",
        value_name = "P,...",
        value_delimiter = ','
    )]
    partitions: Vec<u32>,
    #[command(flatten)]
    common: CommonFlags,
}

// === impl PauseFlags ===

impl PauseFlags {
    pub(super) async fn run(&self) -> Result<(), Failure> {
        let group = &self.which.group;
        let bucket = self.which.bucket().await?;
        let done = change(&bucket, group, async |meta| {
            let patch =
                r#"kubectl patch consumergroup NAME --type merge -p '{"spec":{"paused":true}}'"#;
            refuse_if_managed(meta, group, &format!("use `{patch}`"))?;
            Ok(paused(meta, &self.which.within(meta)?))
        });
        tell(group, "paused", done.await?)
    }
}

// === impl ResumeFlags ===

impl ResumeFlags {
    pub(super) async fn run(&self) -> Result<(), Failure> {
        let group = &self.which.group;
        let bucket = self.which.bucket().await?;
        let done = change(&bucket, group, async |meta| {
            let which = self.which.within(meta)?;
            let stopped = stopped(&bucket, meta).await.map_err(|e| Failure::of(&e))?;
            // In Kubernetes pauses are the object's; what stopped by itself is anybody's to lift.
            if !is_managed(meta) {
                return Ok(resumed(meta, &which, stopped));
            }
            let next = lifted(meta, &which, stopped);
            if next == *meta {
                let patch = r#"kubectl patch consumergroup NAME --type merge -p '{"spec":{"paused":false}}'"#;
                let instead = format!("no partition that is meant stands still; use `{patch}`");
                refuse_if_managed(meta, group, &instead)?;
            }
            Ok(next)
        });
        tell(group, "resumed", done.await?)
    }
}

fn tell(group: &GroupRef, what: &str, changed: Changed) -> Result<(), Failure> {
    match changed {
        Changed::To(generation) => output::line(format_args!(
            "group {group} is {what} as of generation {generation}"
        )),
        Changed::Not => output::line(format_args!("group {group} was {what} already")),
    }
}

// === impl WhichFlags ===

impl WhichFlags {
    async fn bucket(&self) -> Result<Bucket, Failure> {
        self.common.start_logging(Runs::Once)?;
        let connection = server::reach(&self.common).await?;
        read::open(&connection, &self.group, &self.common).await
    }

    /// What was typed, for a group that has these partitions.
    fn within(&self, meta: &Meta) -> Result<Which, Failure> {
        let count = meta.partitions();
        if let Some(wrong) = self.partitions.iter().find(|p| **p >= count) {
            return Err(Failure::usage(format!(
                "group {} has no partition {wrong}; it has 0 to {}",
                self.group,
                count.saturating_sub(1)
            )));
        }
        Ok(match self.partitions.as_slice() {
            [] => Which::All,
            these => Which::These(these.iter().map(|p| Partition(*p)).collect()),
        })
    }
}

fn paused(meta: &Meta, which: &Which) -> Meta {
    let mut meta = meta.clone();
    match which {
        Which::All => meta.pause.all = true,
        Which::These(these) => meta.pause.partitions.extend(these),
    }
    meta
}

/// What is meant is no longer paused; what of it stands still is lifted by the next generation.
fn resumed(meta: &Meta, which: &Which, stopped: BTreeSet<Partition>) -> Meta {
    let mut resumed = meta.clone();
    match which {
        Which::All => resumed.pause = crate::group::Pause::default(),
        Which::These(these) => {
            if meta.pause.all {
                // The rest stays paused, one by one.
                resumed.pause.all = false;
                resumed.pause.partitions = Partition::all(meta.partitions()).collect();
            }
            resumed.pause.partitions.retain(|p| !these.contains(p));
        }
    }
    lifted(&resumed, which, stopped)
}

/// What is meant and stands still is lifted by the next generation; pauses stay.
fn lifted(meta: &Meta, which: &Which, stopped: BTreeSet<Partition>) -> Meta {
    let these = which.of(stopped);
    if these.is_empty() {
        return meta.clone();
    }
    meta.lifting(&these)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::group::MetaGeneration;
    use crate::wire;

    fn these(numbers: &[u32]) -> BTreeSet<Partition> {
        numbers.iter().map(|p| Partition(*p)).collect()
    }

    /// A group of four partitions at generation 7, with one setting that this version does not know.
    fn meta() -> Meta {
        let golden = include_bytes!("../../wire/golden/meta.1.json");
        let mut meta = wire::meta::decode(golden).unwrap();
        meta.source = crate::group::Source::Streams {
            pattern: "s-{partition}".into(),
            partitions: 4,
            subjects: String::new(),
        };
        meta.pause = crate::group::Pause::default();
        meta.resumed.clear();
        meta.generation = MetaGeneration(7);
        meta
    }

    #[test]
    fn pausing_and_resuming_all_leaves_the_group_as_it_was() {
        let before = meta();
        let paused = paused(&before, &Which::All);
        assert!(paused.is_paused(Partition(3)));
        assert_eq!(resumed(&paused, &Which::All, these(&[])), before);
    }

    #[test]
    fn partitions_are_paused_and_resumed_one_by_one() {
        let some = paused(&meta(), &Which::These(these(&[0, 3])));
        assert_eq!(some.pause.partitions, these(&[0, 3]));
        let fewer = resumed(&some, &Which::These(these(&[3])), these(&[]));
        assert_eq!(fewer.pause.partitions, these(&[0]));
    }

    #[test]
    fn of_a_paused_group_one_partition_can_be_resumed_alone() {
        let all = paused(&meta(), &Which::All);
        let one = resumed(&all, &Which::These(these(&[2])), these(&[]));
        let paused: Vec<bool> = Partition::all(4).map(|p| one.is_paused(p)).collect();
        assert_eq!(paused, [true, true, false, true]);
    }

    #[test]
    fn what_stands_still_is_lifted_by_the_generation_that_is_about_to_be_written() {
        let all = resumed(&meta(), &Which::All, these(&[1, 2]));
        let lifted = [
            (Partition(1), MetaGeneration(8)),
            (Partition(2), MetaGeneration(8)),
        ];
        assert_eq!(all.resumed, lifted.into());
        let one = resumed(&meta(), &Which::These(these(&[0, 2])), these(&[1, 2]));
        assert_eq!(one.resumed, [(Partition(2), MetaGeneration(8))].into());
    }

    #[test]
    fn resuming_what_runs_changes_nothing() {
        assert_eq!(resumed(&meta(), &Which::All, these(&[])), meta());
        assert_eq!(
            resumed(&meta(), &Which::These(these(&[1])), these(&[])),
            meta()
        );
    }
}
