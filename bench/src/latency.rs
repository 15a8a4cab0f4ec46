//! What a group adds to the latency of a plain subscription, at 1,000 messages per second.
//!
//! Both hear the same messages in the same run, so that the difference is taken message by message.

use std::collections::BTreeMap;
use std::time::Duration;

use futures_util::StreamExt;
use lockstep::wire::proto::consume_response::Frame as Hear;
use lockstep_e2e::console::say;
use lockstep_e2e::figures::{Figures, Reach, Spread, load_average, milliseconds};
use lockstep_e2e::scene::{Outcome, SceneError};
use tokio::time::Instant;

use crate::clock::monotonic_ns;
use crate::ground::{Cell, Ground, Layout};
use crate::group::{AT_ONCE, Group, Terms};
use crate::grpc::Consume;
use crate::kafka::{self, Kafka};
use crate::load::{Load, Stamp};
use crate::task::Task;

const RATE: u32 = 1000;
/// Messages that do not count: everything warms up.
const WARM_UP: u64 = 2000;

/// What was heard when, by the message's number.
type Heard = BTreeMap<u64, Arrival>;

#[derive(Clone, Copy, Debug)]
struct Arrival {
    published_ns: u64,
    heard_ns: u64,
}

/// Measures strict and wide groups, and Kafka where it is.
pub(crate) async fn measure(figures: &mut Figures, seconds: u32) -> Outcome<()> {
    let cell = Cell {
        layout: Layout::Filters,
        partitions: 8,
        size: 128,
        replicas: 1,
        messages: 0,
    };
    say(&format!(
        "latency at {RATE} messages per second (load average {})",
        load_average()
    ));
    let mut p99 = None;
    for window in [1, 1000] {
        let part = format!("latency window {window}");
        let (plain, group) = of_a_group(cell, window, seconds).await?;
        let added = group.iter().filter_map(|(number, arrival)| {
            let plain = plain.get(number)?;
            Some(arrival.heard_ns.saturating_sub(plain.heard_ns))
        });
        let added = spread(added)?;
        let whole = spread(group.values().map(latency))?;
        figures.spread(
            &part,
            "plain_subscription",
            spread(plain.values().map(latency))?,
        );
        figures.spread(&part, "grpc_rust", whole);
        figures.spread(&part, "added", added);
        let reach = Reach::AtMost(1.0);
        figures.ratio(
            &format!("{part}: p99 added, ms"),
            milliseconds(added.p99, 3),
            reach,
        );
        p99 = Some(whole.p99);
    }
    if kafka::is_here() {
        let kafka = Kafka::start(Duration::from_secs(45), Duration::from_secs(5)).await?;
        let theirs = kafka.latency(&cell, RATE, seconds).await?;
        figures.time("latency kafka", "p50", Duration::from_nanos(theirs.p50_ns));
        let theirs = Duration::from_nanos(theirs.p99_ns);
        figures.time("latency kafka", "p99", theirs);
        let ours = p99.unwrap_or_default();
        let ratio = ours.as_secs_f64() / theirs.as_secs_f64().max(f64::EPSILON);
        figures.ratio("latency p99: grpc_rust / kafka", ratio, Reach::AtMost(0.2));
    }
    Ok(())
}

async fn of_a_group(cell: Cell, window: u32, seconds: u32) -> Outcome<(Heard, Heard)> {
    let ground = Ground::empty(cell).await?;
    let terms = Terms {
        window,
        membership: AT_ONCE,
    };
    let group = Group::start(&ground, terms)?;
    let worker = group.worker("a").await?;
    let mut consume = Consume::open(&worker.socket, 8000).await?;
    assigned(&mut consume).await?;
    let until = Instant::now() + Duration::from_secs(u64::from(seconds)) + Duration::from_secs(2);
    let plain = Task::start(listen_plainly(ground.servers.connect().await?, until));
    let _load = Load::start(ground.servers.connect().await?, cell, RATE);
    let group = listen_as_a_member(&mut consume, until).await?;
    let mut plain = plain.end().await?;
    plain.retain(|number, _| *number >= WARM_UP);
    Ok((plain, group))
}

/// Waits until partitions are owned.
pub(crate) async fn assigned(consume: &mut Consume) -> Outcome<()> {
    while let Some(frame) = consume.next().await? {
        if let Hear::Assigned(assigned) = frame
            && !assigned.partitions.is_empty()
        {
            return Ok(());
        }
    }
    Err(SceneError::new(
        "the stream ended before anything was assigned",
    ))
}

async fn listen_plainly(client: async_nats::Client, until: Instant) -> Outcome<Heard> {
    let mut heard = Heard::new();
    let mut arrivals = client.subscribe("*.one.*").await?;
    while let Ok(Some(message)) = tokio::time::timeout_at(until, arrivals.next()).await {
        note(&mut heard, &message.payload);
    }
    Ok(heard)
}

async fn listen_as_a_member(consume: &mut Consume, until: Instant) -> Outcome<Heard> {
    let mut heard = Heard::new();
    let mut last = BTreeMap::new();
    while let Ok(frame) = tokio::time::timeout_at(until, consume.next()).await {
        let Some(Hear::Batch(batch)) = frame? else {
            continue;
        };
        for message in &batch.messages {
            note(&mut heard, &message.payload);
        }
        consume.done_with(&batch.messages, &mut last).await?;
    }
    heard.retain(|number, _| *number >= WARM_UP);
    Ok(heard)
}

fn note(heard: &mut Heard, payload: &[u8]) {
    let heard_ns = monotonic_ns();
    if let Some(Stamp { number, at_ns }) = Stamp::read(payload) {
        let arrival = Arrival {
            published_ns: at_ns,
            heard_ns,
        };
        heard.insert(number, arrival);
    }
}

fn latency(arrival: &Arrival) -> u64 {
    arrival.heard_ns.saturating_sub(arrival.published_ns)
}

fn spread(nanoseconds: impl Iterator<Item = u64>) -> Outcome<Spread> {
    let spread = Spread::of(nanoseconds.map(Duration::from_nanos));
    spread.ok_or_else(|| SceneError::new("nothing was heard"))
}
