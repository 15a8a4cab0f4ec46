//! What each part measures, thoroughly or quickly.
//!
//! One cell is the base (8 partitions, 128 bytes, R1); every other cell differs from it in one
//! thing, so that a figure says what that thing does.

use std::time::Duration;

use lockstep_e2e::console::say;
use lockstep_e2e::figures::Figures;
use lockstep_e2e::scene::Outcome;

use crate::flags::Part;
use crate::ground::{Cell, Layout};
use crate::throughput::{Contender, Match};
use crate::{assignors, crowd, kafka, latency, moves, outside, pulls, rest};

const BASE: Cell = Cell {
    layout: Layout::Filters,
    partitions: 8,
    size: 128,
    replicas: 1,
    messages: 400_000,
};
const LAYOUTS: [Layout; 2] = [Layout::Filters, Layout::Streams];
const WINDOW: u32 = 1000;
const KIB4: usize = 4096;

/// Those whose ratio matters most.
const PAIR: [Contender; 2] = [Contender::Limit, Contender::GrpcRust];

/// Measures one part.
pub(crate) async fn measure(part: Part, quick: bool, figures: &mut Figures) -> Outcome<()> {
    match part {
        Part::Throughput => {
            say_what_is_not_here();
            for each in throughput(quick) {
                each.run(figures).await?;
            }
        }
        Part::Strict => {
            for each in strict(quick) {
                each.run(figures).await?;
            }
        }
        Part::Latency => latency::measure(figures, if quick { 5 } else { 20 }).await?,
        Part::Moves if quick => moves::idle(figures).await?,
        Part::Moves => moves::measure(figures).await?,
        Part::Rest => rest::measure(figures, if quick { 5 } else { 30 }).await?,
        Part::Crowd => crowds(quick, figures).await?,
        Part::Assignors => assignors::measure(figures)?,
        Part::Pulls => pulls::measure(figures, BASE, 3).await?,
        Part::Smoke => smoke().run(figures).await?,
    }
    Ok(())
}

fn say_what_is_not_here() {
    let there = [
        (
            outside::is_built("python/worker_pb2_grpc.py"),
            "the application in Python: no pip",
        ),
        (outside::is_built("pcgroups"), "pcgroups: no Go"),
        (kafka::is_here(), "Kafka: no Java, or no Maven"),
    ];
    for (_, what) in there.iter().filter(|(there, _)| !there) {
        say(&format!("skipped: {what}"));
    }
}

fn throughput(quick: bool) -> Vec<Match> {
    let wide = |cell: Cell, contenders: &[Contender]| Match {
        cell,
        window: WINDOW,
        contenders: contenders.to_vec(),
        rounds: if quick { 3 } else { 5 },
        within: Duration::from_secs(3),
    };
    let mut all = Vec::new();
    for layout in LAYOUTS {
        let base = Cell { layout, ..BASE };
        if quick {
            let messages = BASE.messages / 2;
            all.push(wide(Cell { messages, ..base }, &PAIR));
            continue;
        }
        all.push(wide(base, &Contender::ALL));
        let larger = Cell {
            size: KIB4,
            messages: BASE.messages / 10,
            ..base
        };
        let without_pcgroups = [
            Contender::Limit,
            Contender::GrpcRust,
            Contender::Http,
            Contender::Library,
            Contender::Kafka,
        ];
        all.push(wide(larger, &without_pcgroups));
        for partitions in [1, 64] {
            all.push(wide(Cell { partitions, ..base }, &PAIR));
        }
        let replicated = Cell {
            replicas: 3,
            messages: BASE.messages / 2,
            ..base
        };
        all.push(wide(replicated, &PAIR));
    }
    all
}

fn strict(quick: bool) -> Vec<Match> {
    let contenders: &[Contender] = if quick {
        &[Contender::GrpcRust, Contender::PcgroupsStatic]
    } else {
        &Contender::ALL
    };
    let narrow = |cell: Cell| Match {
        cell,
        window: 1,
        contenders: contenders.to_vec(),
        rounds: if quick { 1 } else { 3 },
        within: Duration::from_secs(2),
    };
    let cell = Cell {
        messages: BASE.messages / 4,
        ..BASE
    };
    let one = Cell {
        partitions: 1,
        ..cell
    };
    if quick {
        return vec![narrow(one)];
    }
    let replicated = Cell {
        replicas: 3,
        ..cell
    };
    vec![narrow(one), narrow(cell), narrow(replicated)]
}

async fn crowds(quick: bool, figures: &mut Figures) -> Outcome<()> {
    let many = crowd::Size {
        groups: if quick { 50 } else { 1000 },
        partitions: 32,
        members: 10,
    };
    let large = crowd::Size {
        groups: 1,
        partitions: 1000,
        members: 100,
    };
    crowd::measure(figures, many, if quick { 5 } else { 30 }).await?;
    if quick {
        return Ok(());
    }
    crowd::measure(figures, large, 20).await
}

/// Small enough for a test: everything is read once, in both layouts' simplest cell.
fn smoke() -> Match {
    Match {
        cell: Cell {
            messages: 4000,
            partitions: 2,
            ..BASE
        },
        window: WINDOW,
        contenders: vec![
            Contender::Limit,
            Contender::GrpcRust,
            Contender::Http,
            Contender::Library,
        ],
        rounds: 1,
        within: Duration::from_secs(30),
    }
}
