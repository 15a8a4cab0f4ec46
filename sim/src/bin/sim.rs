//! Runs seeds of the simulated world, or shows one.
#![allow(clippy::print_stdout, reason = "a command line talks")]

use std::process::ExitCode;

use clap::Parser;
use lockstep_sim::guard::Guard;
use lockstep_sim::run::{cores, report, run, run_many};

/// Run Lockstep's cores in a simulated world, where everything goes wrong that a seed draws.
///
/// Without --seed, many seeds are run on all cores, and the first one that breaks a promise is shown
/// with the end of its event log. With --seed, one is run and all that happens in it is shown: the same
/// seed always shows the same.
#[derive(Debug, Parser)]
#[command(name = "sim", version, about, max_term_width = 100)]
struct Options {
    /// Show this seed, event by event
    #[arg(long, value_name = "NUMBER", conflicts_with_all = ["seeds", "first"])]
    seed: Option<u64>,

    /// How many seeds to run
    #[arg(long, value_name = "COUNT", default_value_t = 2000)]
    seeds: u64,

    /// The first of them
    #[arg(long, value_name = "NUMBER", default_value_t = 0)]
    first: u64,

    /// Switch a guard of the protocol off. Then something is expected to break
    #[arg(long, value_name = "GUARD")]
    without: Option<Guard>,

    /// Threads; by default one for each core
    #[arg(long, value_name = "COUNT")]
    threads: Option<usize>,

    /// Run all seeds, also after one has failed, and list what each of them breaks
    #[arg(long)]
    keep_going: bool,
}

fn main() -> ExitCode {
    let options = Options::parse();
    match options.seed {
        Some(seed) => show(seed, options.without),
        None => run_all(&options),
    }
}

fn show(seed: u64, without: Option<Guard>) -> ExitCode {
    let outcome = run(seed, without, true);
    for line in &outcome.log {
        println!("{line}");
    }
    println!("{} events, {:?}", outcome.events, outcome.checker.tally);
    let violations = outcome.checker.violations();
    for violation in violations {
        println!("seed {seed} breaks {violation}");
    }
    if violations.is_empty() {
        println!("seed {seed} keeps every promise");
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    }
}

fn run_all(options: &Options) -> ExitCode {
    let threads = options.threads.unwrap_or_else(cores);
    let range = (options.first, options.seeds);
    let sum = run_many(range, options.without, threads, |_| !options.keep_going);
    println!(
        "{} seeds, {} events: {:?}",
        sum.seeds, sum.events, sum.tally
    );
    if options.keep_going {
        for (seed, violation) in &sum.failed {
            println!("seed {seed} breaks {violation}");
        }
    } else if let Some((seed, _)) = sum.failed.first() {
        println!("{}", report(*seed, options.without));
    }
    if sum.failed.is_empty() {
        println!("every promise was kept");
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    }
}
