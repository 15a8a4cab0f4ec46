//! Measures Lockstep against what NATS can do at most, and against its peers: `make bench`.
//!
//! Everything of a comparison runs in one go on one machine, in turn, several times; the last line
//! is one JSON object with all ratios and figures.

mod assignors;
mod clock;
mod crowd;
mod flags;
mod ground;
mod group;
mod grpc;
mod http;
mod kafka;
mod latency;
mod library;
mod limit;
mod load;
mod moves;
mod outside;
mod pauses;
mod plan;
mod pulls;
mod rest;
mod tally;
mod task;
mod throughput;

use std::process::ExitCode;

use flags::Flags;
use lockstep_e2e::console::say;
use lockstep_e2e::figures::{Figures, load_average};

#[tokio::main]
async fn main() -> ExitCode {
    let flags = match Flags::parse(std::env::args().skip(1)) {
        Ok(flags) => flags,
        Err(error) => {
            say(&error);
            return ExitCode::from(2);
        }
    };
    let mut figures = Figures::new(3);
    say("the machine");
    let cores = std::thread::available_parallelism().map_or(0, usize::from);
    figures.note("machine", "cores", cores);
    figures.note("machine", "load_average_before", load_average());
    let mut failed = false;
    for part in &flags.parts {
        if let Err(error) = plan::measure(*part, flags.quick, &mut figures).await {
            say(&format!("{part:?}: {error}"));
            failed = true;
        }
    }
    say(&figures.json_with_ratios());
    if failed {
        ExitCode::FAILURE
    } else {
        ExitCode::SUCCESS
    }
}
