//! `lockstep group …`: look at groups, and change what a person may change.

mod adopt;
mod change;
mod create;
mod delete;
mod pause;
mod read;
mod show;
mod table;

use clap::{Args, Subcommand};

use super::Failure;
use crate::group::GroupRef;

pub(super) use read::meta_of;

/// Look at groups; create, pause, resume, adopt or delete one
#[derive(Args, Debug)]
pub(super) struct Flags {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    Create(create::Flags),
    List(show::ListFlags),
    Describe(show::DescribeFlags),
    Members(show::MembersFlags),
    Offsets(show::OffsetsFlags),
    Pause(pause::PauseFlags),
    Resume(pause::ResumeFlags),
    Adopt(adopt::Flags),
    Delete(delete::Flags),
}

// === impl Flags ===

impl Flags {
    pub(super) async fn run(&self) -> Result<(), Failure> {
        match &self.command {
            Command::Create(flags) => flags.run().await,
            Command::List(flags) => flags.run().await,
            Command::Describe(flags) => flags.run().await,
            Command::Members(flags) => flags.run().await,
            Command::Offsets(flags) => flags.run().await,
            Command::Pause(flags) => flags.run().await,
            Command::Resume(flags) => flags.run().await,
            Command::Adopt(flags) => flags.run().await,
            Command::Delete(flags) => flags.run().await,
        }
    }
}

/// The group whose bucket has this name; none if it is no group's.
fn group_of(bucket: &str, prefix: &str) -> Option<GroupRef> {
    let rest = bucket.strip_prefix(prefix)?.strip_prefix('_')?;
    let (namespace, name) = rest.split_once('_')?;
    Some(GroupRef {
        namespace: namespace.parse().ok()?,
        name: name.parse().ok()?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bucket_is_a_groups_only_if_its_name_has_the_three_parts() {
        let group: GroupRef = "shop/orders".parse().unwrap();
        assert_eq!(group_of("lockstep_shop_orders", "lockstep"), Some(group));
        for other in [
            "lockstep_shop",
            "lockstep_shop_or_ders",
            "other_shop_orders",
            "lockstep__o",
        ] {
            assert_eq!(group_of(other, "lockstep"), None, "{other}");
        }
    }
}
