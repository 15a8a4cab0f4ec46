//! The command line: what was typed, then what it means.
//!
//! Each command is two layers. Its *flags* are what clap reads: text and numbers, checked one by
//! one. What they *mean* together is made of them before anything is touched; a contradiction ends
//! there, with exit code 2 and nothing changed.

mod completions;
mod connection;
mod controller;
mod coordinator;
mod crd;
mod failure;
mod group;
mod host;
mod output;
mod partition_of;
mod permissions;
mod publish;
mod server;
mod signals;
#[cfg(test)]
mod tests;
mod worker;

use std::process::ExitCode;

use clap::builder::FalseyValueParser;
use clap::{ArgAction, CommandFactory, FromArgMatches, Parser, Subcommand};

pub use connection::{CommonFlags, ConnectionFlags, LogFlags, Runs};
pub use failure::Failure;

/// Kafka-style consumer groups on NATS JetStream.
#[derive(Debug, Parser)]
#[command(
    name = "lockstep",
    version,
    max_term_width = 100,
    propagate_version = true,
    disable_help_subcommand = true,
    after_help = "Every flag can be given as an environment variable: --nats-url is LOCKSTEP_NATS_URL.\n\
                  Exit codes: 0 done, 1 failed, 2 used wrongly. Data on standard output, words on standard error."
)]
pub struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    Controller(Box<controller::Flags>),
    Coordinator(coordinator::Flags),
    Group(group::Flags),
    Publish(publish::Flags),
    Worker(worker::Flags),
    PartitionOf(partition_of::Flags),
    Crd(crd::Flags),
    Permissions(permissions::Flags),
    Completions(completions::Flags),
}

/// The command line as clap knows it.
pub fn command_line() -> clap::Command {
    settled(Cli::command())
}

/// What holds for every flag of every command. Environment variables are told once, not at each
/// flag, so that the help fits a screen; a switch is set by a variable that is not 0, no or false.
fn settled(command: clap::Command) -> clap::Command {
    let flag = |flag: clap::Arg| {
        let flag = flag.hide_env(true);
        if matches!(flag.get_action(), ArgAction::SetTrue) {
            return flag.value_parser(FalseyValueParser::new());
        }
        flag
    };
    command.mut_args(flag).mut_subcommands(settled)
}

/// Runs the program: reads the command line, does what it says, and tells how it went.
pub fn main() -> ExitCode {
    let typed = Cli::from_arg_matches(&command_line().get_matches());
    match typed.map_or_else(|e| e.exit(), |cli| run(cli.command)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            if failure != Failure::NobodyReads {
                output::say(format_args!("lockstep: {failure}"));
            }
            failure.exit_code()
        }
    }
}

fn run(command: Command) -> Result<(), Failure> {
    let runtime = tokio::runtime::Runtime::new()
        .map_err(|e| Failure::failed(format!("cannot start threads: {e}")))?;
    runtime.block_on(async {
        match command {
            Command::Controller(flags) => flags.run().await,
            Command::Coordinator(flags) => flags.run().await,
            Command::Group(flags) => flags.run().await,
            Command::Publish(flags) => flags.run().await,
            Command::Worker(flags) => flags.run().await,
            Command::PartitionOf(flags) => flags.run().await,
            Command::Crd(flags) => flags.run(),
            Command::Permissions(flags) => flags.run(),
            Command::Completions(flags) => flags.run(),
        }
    })
}
