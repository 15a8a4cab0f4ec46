//! What a worker takes while nothing happens.

use std::time::Duration;

use lockstep_e2e::console::say;
use lockstep_e2e::figures::{Figures, Reach, load_average, rounded};
use lockstep_e2e::scene::Outcome;
use lockstep_e2e::usage::Usage;

use crate::ground::{Cell, Ground, Layout};
use crate::group::{Group, Terms};
use crate::grpc::Consume;

const PART: &str = "idle worker";
/// Until everything that follows a join is done.
const SETTLE: Duration = Duration::from_secs(5);
const MOST_MIB: f64 = 25.0;

/// Measures a worker with 8 partitions, default settings and an application that waits.
pub(crate) async fn measure(figures: &mut Figures, seconds: u64) -> Outcome<()> {
    say(&format!("idle worker (load average {})", load_average()));
    let cell = Cell {
        layout: Layout::Filters,
        partitions: 8,
        size: 128,
        replicas: 1,
        messages: 0,
    };
    let ground = Ground::empty(cell).await?;
    let terms = Terms {
        window: 1,
        membership: "",
    };
    let group = Group::start(&ground, terms)?;
    let worker = group.worker("a").await?;
    let mut consume = Consume::open(&worker.socket, 100).await?;
    crate::latency::assigned(&mut consume).await?;
    tokio::time::sleep(SETTLE).await;
    let (worker, coordinator) = (worker.process.pid(), group.coordinator.pid());
    let (before, before_it) = (Usage::of(worker)?, Usage::of(coordinator)?);
    tokio::time::sleep(Duration::from_secs(seconds)).await;
    let (after, after_it) = (Usage::of(worker)?, Usage::of(coordinator)?);
    figures.note(PART, "worker_cores", rounded(after.cores_since(&before), 4));
    figures.note(PART, "worker_peak_mib", rounded(after.peak_mib, 1));
    figures.note(
        PART,
        "coordinator_cores",
        rounded(after_it.cores_since(&before_it), 4),
    );
    figures.note(PART, "coordinator_mib", rounded(after_it.resident_mib, 1));
    figures.ratio(
        "idle worker, MiB",
        after.resident_mib,
        Reach::AtMost(MOST_MIB),
    );
    Ok(())
}
