//! `make bench-cluster`: what Lockstep takes on Kubernetes, and how fast it is.
//!
//! Readable lines while it measures; the last line of standard output is one JSON object with every
//! figure. What the figures mean, and how they were, is in docs/performance.md.

mod exposition;
mod flags;
mod groups;
mod handovers;
mod node;
mod plant;
mod pods;
mod requests;
mod rest;
mod webhook;

use std::io::Write;
use std::process::ExitCode;
use std::sync::mpsc::channel;

use lockstep_e2e::cluster::{images, inside, unavailable};
use lockstep_e2e::console::say;
use lockstep_e2e::figures::Figures;
use lockstep_e2e::scene::Outcome;

use flags::{Flags, Part};

fn main() -> ExitCode {
    let measured = Flags::parse(std::env::args().skip(1)).and_then(|flags| {
        let mut figures = Figures::new(1);
        let done = run(&flags, &mut figures);
        // What was measured before something went wrong is told as well.
        say(&figures.json());
        done.map_err(|error| error.to_string())
    });
    match measured {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            drop(writeln!(std::io::stderr(), "cluster-bench: {error}"));
            ExitCode::FAILURE
        }
    }
}

fn run(flags: &Flags, figures: &mut Figures) -> Outcome<()> {
    for part in &flags.parts {
        match part {
            Part::Rest => on_this_machine(rest::measure(flags, figures))?,
            Part::Webhook => on_this_machine(webhook::measure(flags, figures))?,
            Part::Node => on_a_node(flags, figures)?,
        }
    }
    Ok(())
}

/// Where no node can run, its part is left out, and the figures say so.
fn on_a_node(flags: &Flags, figures: &mut Figures) -> Outcome<()> {
    if let Some(why) = unavailable() {
        figures.note("node", "skipped", why);
        return Ok(());
    }
    let (flags, (tell, told)) = (flags.clone(), channel());
    inside(&images(), async move |node| {
        let mut figures = Figures::new(1);
        let done = node::measure(node, &flags, &mut figures).await;
        // The receiver waits below.
        drop(tell.send((figures, done)));
    });
    let (of_node, done) = told.recv()?;
    figures.extend(of_node);
    done
}

fn on_this_machine(part: impl Future<Output = Outcome<()>>) -> Outcome<()> {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()?;
    runtime.block_on(part)
}
