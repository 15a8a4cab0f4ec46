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
