//! Many groups, and nobody who uses them: what a controller takes then, of whom.

use std::time::Duration;

use lockstep_e2e::clock;
use lockstep_e2e::console::say;
use lockstep_e2e::figures::{Figures, Spread, rounded};
use lockstep_e2e::scene::Outcome;
use lockstep_e2e::usage::Usage;
use serde_json::Value;
use tokio::sync::watch;

use crate::exposition;
use crate::flags::Flags;
use crate::groups::{self, Moments, Seen, WITHIN, are_ready, at_rest, make, spans};
use crate::plant::{Controller, Plant};
use crate::requests::{Rates, Requests};

/// How long the API server is watched without a controller.
const ALONE: Duration = Duration::from_secs(60);

/// Groups that are made one by one beside those at rest.
const MORE: usize = 10;

/// The part's name in the figures.
const PART: &str = "rest";

pub(crate) async fn measure(flags: &Flags, figures: &mut Figures) -> Outcome<()> {
    let count = flags.groups;
    say(&format!(
        "{count} groups at rest, over an API server and a NATS server"
    ));
    let plant = Plant::start().await?;
    let before = Requests::now(&plant.api).await?;
    tokio::time::sleep(ALONE).await;
    let usual = Requests::now(&plant.api).await?.since(&before);
    figures.note(PART, "groups", count);
    figures.note(
        PART,
        "api_requests_per_minute_without_controller",
        usual.total(),
    );

    let controller = plant.controller(flags, &["--no-webhook"]).await?;
    let context = (flags, figures, &usual);
    groups::followed(&plant.client, async |seen| {
        with_groups(&plant, controller, seen, context).await
    })
    .await
}

type Context<'a> = (&'a Flags, &'a mut Figures, &'a Rates);

async fn with_groups(
    plant: &Plant,
    mut controller: Controller,
    mut seen: watch::Receiver<Seen>,
    (flags, figures, usual): Context<'_>,
) -> Outcome<()> {
    let names: Vec<String> = (0..flags.groups).map(|n| format!("g{n}")).collect();
    let (asked, began) = (Requests::now(&plant.api).await?, clock::now());
    let made = make(&plant.client, &names).await?;
    figures.time(PART, "created", clock::now().duration_since(began));
    let ready = are_ready(&mut seen, &names).await?;
    let last = ready.values().max().copied().unwrap_or(began);
    figures.time(
        PART,
        "all_ready_after_the_first_create",
        last.duration_since(began),
    );
    note_spread(figures, "create_to_ready_of_all", &made, &ready);
    peak(figures, "resident_mib_when_all_are_ready", &controller)?;

    at_rest(&mut seen).await?;
    let asked = Requests::now(&plant.api)
        .await?
        .since(&asked)
        .without(usual);
    figures.note(PART, "api_requests_until_at_rest", asked.all());
    rest(plant, &controller, &mut seen, (flags, figures, usual)).await?;

    let more: Vec<String> = (0..MORE).map(|n| format!("more{n}")).collect();
    let mut times = Vec::new();
    for name in &more {
        let one = std::slice::from_ref(name);
        let made = make(&plant.client, one).await?;
        let ready = are_ready(&mut seen, one).await?;
        times.extend(spans(&made, &ready));
    }
    if let Some(spread) = Spread::of(times) {
        figures.spread(PART, "create_to_ready_of_one_more", spread);
    }

    controller.process.kill()?;
    let began = clock::now();
    let controller = plant.controller(flags, &["--no-webhook"]).await?;
    coordinates(&controller, flags.groups + MORE).await?;
    figures.time(
        PART,
        "all_coordinated_after_a_kill",
        clock::now().duration_since(began),
    );
    Ok(())
}

/// Nothing happens: what is done all the same?
async fn rest(
    plant: &Plant,
    controller: &Controller,
    seen: &mut watch::Receiver<Seen>,
    (flags, figures, usual): Context<'_>,
) -> Outcome<()> {
    say(&format!("at rest; watched for {} s", flags.rest.as_secs()));
    let nats = plant.nats.pid().unwrap_or_default();
    let pids = [
        ("controller", controller.process.pid()),
        ("nats_server", nats),
        (
            "api_server",
            plant.api.pid("kube-apiserver").unwrap_or_default(),
        ),
    ];
    let look = || pids.iter().map(|(_, pid)| Usage::of(*pid)).collect();
    let requests = Requests::now(&plant.api).await?;
    let (changes, reconciles) = (seen.borrow().changes, reconciles(controller).await?);
    let (varz, began) = (plant.nats.inspect("/varz").await?, clock::now());
    let before: Vec<Usage> = look_at(look)?;

    tokio::time::sleep(flags.rest).await;

    let after: Vec<Usage> = look_at(look)?;
    let (later, seconds) = (
        plant.nats.inspect("/varz").await?,
        clock::now().duration_since(began).as_secs_f64(),
    );
    let asked = Requests::now(&plant.api).await?.since(&requests);
    let own = asked.without(usual);
    figures.note(PART, "watched_s", rounded(seconds, 0));
    for ((name, _), (before, after)) in pids.iter().zip(before.iter().zip(&after)) {
        figures.note(
            PART,
            &format!("{name}_cores"),
            rounded(after.cores_since(before), 3),
        );
        figures.note(
            PART,
            &format!("{name}_resident_mib"),
            rounded(after.resident_mib, 1),
        );
    }
    figures.note(PART, "api_requests_per_minute", own.total());
    figures.note(PART, "api_requests_per_minute_by_kind", own.json());
    for name in ["in_msgs", "out_msgs", "in_bytes", "out_bytes"] {
        let count = |varz: &Value| varz[name].as_f64().unwrap_or_default();
        let rate = (count(&later) - count(&varz)) / seconds;
        figures.note(PART, &format!("nats_{name}_per_second"), rounded(rate, 1));
    }
    let done = reconciles_since(controller, reconciles).await?;
    figures.note(
        PART,
        "reconciles_per_minute",
        rounded(done * 60.0 / seconds, 1),
    );
    figures.note(
        PART,
        "changes_of_groups_while_at_rest",
        seen.borrow().changes - changes,
    );
    Ok(())
}

fn look_at(look: impl Fn() -> std::io::Result<Vec<Usage>>) -> Outcome<Vec<Usage>> {
    Ok(look()?)
}

async fn reconciles(controller: &Controller) -> Outcome<f64> {
    let text = controller.metrics().await?;
    Ok(exposition::sum(&text, "lockstep_reconcile_total"))
}

async fn reconciles_since(controller: &Controller, before: f64) -> Outcome<f64> {
    Ok(reconciles(controller).await? - before)
}

fn peak(figures: &mut Figures, name: &str, controller: &Controller) -> Outcome<()> {
    let usage = Usage::of(controller.process.pid())?;
    figures.note(PART, name, rounded(usage.resident_mib, 1));
    Ok(())
}

/// Waits until a controller coordinates so many groups.
async fn coordinates(controller: &Controller, groups: usize) -> Outcome<()> {
    let all = lockstep_e2e::until("coordination of all groups", WITHIN, async || {
        let text = controller
            .metrics()
            .await
            .map_err(|error| error.to_string())?;
        let active = exposition::sum(&text, "lockstep_coordinator_active");
        if rounded(active, 0) >= rounded(f64::from(u32::try_from(groups).unwrap_or(u32::MAX)), 0) {
            Ok(())
        } else {
            Err(format!("{active} of {groups}"))
        }
    });
    Ok(all.await?)
}

fn note_spread(figures: &mut Figures, name: &str, made: &Moments, ready: &Moments) {
    if let Some(spread) = Spread::of(spans(made, ready)) {
        figures.spread(PART, name, spread);
    }
}
