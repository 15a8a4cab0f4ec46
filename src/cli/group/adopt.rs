//! `lockstep group adopt`

use clap::Args;

use super::change::{Changed, change};
use super::read;
use crate::cli::{CommonFlags, Failure, Runs, output, server};
use crate::coordinator::STANDALONE;
use crate::group::GroupRef;

/// Take a group over from the Kubernetes cluster that manages it
#[derive(Args, Debug)]
#[command(
    after_help = "From then on `lockstep coordinator` coordinates it, and the cluster's controller \
                  leaves it alone.\nExample: lockstep group adopt shop/orders"
)]
pub(super) struct Flags {
    /// The group, [NAMESPACE/]NAME
    #[arg(value_name = "NAME")]
    group: GroupRef,
    #[command(flatten)]
    common: CommonFlags,
}

// === impl Flags ===

impl Flags {
    pub(super) async fn run(&self) -> Result<(), Failure> {
        self.common.start_logging(Runs::Once)?;
        let connection = server::reach(&self.common).await?;
        let bucket = read::open(&connection, &self.group, &self.common).await?;
        let changed = change(&bucket, &self.group, async |meta| {
            let mut meta = meta.clone();
            STANDALONE.clone_into(&mut meta.manager);
            Ok(meta)
        });
        let group = &self.group;
        match changed.await? {
            Changed::To(generation) => output::line(format_args!(
                "group {group} is managed by {STANDALONE} as of generation {generation}"
            )),
            Changed::Not => output::line(format_args!(
                "group {group} was managed by {STANDALONE} already"
            )),
        }
    }
}
