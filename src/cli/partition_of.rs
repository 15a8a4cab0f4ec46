//! `lockstep partition-of`: where a key's messages are.

use std::num::NonZeroU32;

use clap::Args;

use super::group;
use super::{CommonFlags, Failure, output, server};
use crate::group::partitioning::{self, Key, KeyError};
use crate::group::{GroupRef, Partition};

/// Print the partition of keys
#[derive(Args, Debug)]
#[command(
    override_usage = "lockstep partition-of NAME KEY...\n       lockstep partition-of --partitions N KEY...",
    after_help = "Prints the partition of one key, or a line `KEY<tab>PARTITION` for each of several. \
                  The tokens of a key are separated by dots.\n\
                  Examples: lockstep partition-of orders customer-42\n          \
                  lockstep partition-of --partitions 12 customer-42 customer-43"
)]
pub(super) struct Flags {
    /// Compute for this many partitions, without a server
    #[arg(long, env = "LOCKSTEP_PARTITIONS", value_name = "N")]
    partitions: Option<NonZeroU32>,
    /// The group, [NAMESPACE/]NAME (without --partitions), then the keys
    #[arg(required = true, value_name = "NAME|KEY")]
    words: Vec<String>,
    #[command(flatten)]
    common: CommonFlags,
}

/// Where partitions come from.
enum Rule {
    Count(NonZeroU32),
    Group(GroupRef),
}

// === impl Flags ===

impl Flags {
    pub(super) async fn run(&self) -> Result<(), Failure> {
        let (rule, keys) = self.meaning()?;
        let partitions = match rule {
            Rule::Count(count) => by_count(count, &keys),
            Rule::Group(name) => {
                self.common.start_logging(super::Runs::Once)?;
                let connection = server::reach(&self.common).await?;
                let meta = group::meta_of(&connection, &name, &self.common).await?;
                let of = |key| partitioning::partition_of_key(&meta.source, key);
                keys.iter()
                    .map(of)
                    .collect::<Result<Vec<Partition>, KeyError>>()
            }
        };
        let partitions = partitions.map_err(Failure::usage)?;
        if let [only] = partitions.as_slice() {
            return output::line(only);
        }
        let line = |(key, partition): (&Key, &Partition)| format!("{key}\t{partition}\n");
        output::write(&keys.iter().zip(&partitions).map(line).collect::<String>())
    }

    fn meaning(&self) -> Result<(Rule, Vec<Key>), Failure> {
        let (rule, keys) = match (self.partitions, self.words.split_first()) {
            (Some(count), _) => (Rule::Count(count), self.words.as_slice()),
            (None, Some((name, keys))) if !keys.is_empty() => {
                (Rule::Group(name.parse().map_err(Failure::usage)?), keys)
            }
            (None, _) => {
                return Err(Failure::usage(
                    "no key is given; write `lockstep partition-of NAME KEY...`, \
                     or `--partitions N KEY...`",
                ));
            }
        };
        let keys: Result<Vec<Key>, KeyError> = keys.iter().map(|k| k.parse()).collect();
        Ok((rule, keys.map_err(Failure::usage)?))
    }
}

fn by_count(count: NonZeroU32, keys: &[Key]) -> Result<Vec<Partition>, KeyError> {
    keys.iter()
        .map(|key| {
            partitioning::partition_of(key.tokens(), count.get()).ok_or(KeyError::NoPartitions)
        })
        .collect()
}
