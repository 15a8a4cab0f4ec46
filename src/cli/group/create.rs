//! `lockstep group create`: makes what the groups of a manifest need.

use std::path::PathBuf;

use clap::Args;

use crate::cli::{CommonFlags, Failure, Runs, output, server};
use crate::coordinator::provision::{self, Call, Change, Missing, ProvisionError, Terms};
use crate::crd::{self, ValidGroup};

/// Make the groups of a manifest: streams, buckets, descriptions
#[derive(Args, Debug)]
#[command(
    after_help = "What is there already is left as it is, but for settings that may change. All groups of the\n\
                  file are looked at before anything is made. `lockstep coordinator FILE` then coordinates them.\n\
                  Example: lockstep group create orders.yaml"
)]
pub(super) struct Flags {
    /// The manifest
    #[arg(value_name = "FILE")]
    file: PathBuf,
    #[command(flatten)]
    common: CommonFlags,
}

// === impl Flags ===

impl Flags {
    pub(super) async fn run(&self) -> Result<(), Failure> {
        let groups = self.groups()?;
        self.common.start_logging(Runs::Once)?;
        let connection = server::reach(&self.common).await?;
        connection
            .check_version()
            .await
            .map_err(|e| Failure::of(&e))?;
        let terms = Terms::standalone(self.common.bucket_prefix(), Missing::Make);
        for group in &groups {
            let looked = provision::inspect(&connection, &terms, group).await;
            looked.map_err(|e| failure(&e).while_doing("nothing was made"))?;
        }
        for group in &groups {
            let made = provision::provide(&connection, &terms, group).await;
            let made = made.map_err(|e| failure(&e))?;
            output::line(sentence(group, made.change))?;
            say_what_is_ignored(group);
        }
        Ok(())
    }

    fn groups(&self) -> Result<Vec<ValidGroup>, Failure> {
        let name = self.file.display().to_string();
        let text = std::fs::read_to_string(&self.file);
        let text = text.map_err(|e| {
            Failure::usage(format!(
                "{name} cannot be read: {e}; name a readable manifest"
            ))
        })?;
        crd::read_groups(&name, &text).map_err(Failure::usage)
    }
}

fn say_what_is_ignored(group: &ValidGroup) {
    let ignored = group.ignored_without_kubernetes();
    if !ignored.is_empty() {
        let fields = ignored.join(", ");
        output::say(format_args!(
            "group {}: {fields}: of effect in Kubernetes only",
            group.group
        ));
    }
}

fn sentence(group: &ValidGroup, change: Change) -> String {
    let name = &group.group;
    match change {
        Change::Made => format!(
            "group {name} is made, with {} partitions",
            group.partitions()
        ),
        Change::Nothing => format!("group {name} was as the manifest says already"),
        Change::Adopted(generation) | Change::Updated(generation) => {
            format!("group {name} is as the manifest says as of generation {generation}")
        }
    }
}

fn failure(error: &ProvisionError) -> Failure {
    let failure = Failure::of(error);
    match error.calls_for() {
        Call::Manifest => Failure::usage(failure),
        Call::Retry | Call::Person => failure,
    }
}
