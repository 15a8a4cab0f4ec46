//! Pods through the webhook, as who makes them sees it.
//!
//! A pod with the label and one without are made in turn, so that both meet the same machine. The
//! difference is what the webhook costs, the API server's part of it included: a call over TLS, the
//! patch, a larger object. Its own part is in its histogram.

use std::time::Duration;

use futures_util::{StreamExt, stream};
use k8s_openapi::api::core::v1::Pod;
use kube::Client;
use kube::api::{Api, PostParams};
use lockstep_e2e::cluster::{webhook_configuration, webhook_name};
use lockstep_e2e::console::say;
use lockstep_e2e::figures::{Figures, Spread, rounded};
use lockstep_e2e::scene::{Outcome, SceneError};
use lockstep_e2e::{clock, until};
use serde_json::json;

use crate::exposition::{self, Labels};
use crate::flags::Flags;
use crate::groups::{self, NAMESPACE, group, is_ready};
use crate::plant::{Controller, Plant};
use crate::requests;

const PART: &str = "webhook";

/// The longest that a start takes.
const SOON: Duration = Duration::from_secs(60);

/// Makers of pods that work side by side.
const AT_ONCE: usize = 8;

/// Pods of one kind that are made before those of the other have their turn.
const TURN: usize = 25;

/// What the API server measures of webhooks, and what ours measures of itself.
const ASKED: &str = "apiserver_admission_webhook_admission_duration_seconds_bucket";
const ANSWERED: &str = "lockstep_admission_seconds_bucket";

/// Whether a pod has the label.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Labelled,
    Plain,
}

/// Both histograms at a moment.
struct Histograms {
    asked: Vec<(Labels, f64)>,
    answered: Vec<(Labels, f64)>,
}

pub(crate) async fn measure(flags: &Flags, figures: &mut Figures) -> Outcome<()> {
    say(&format!(
        "{} pods with and without the webhook, in two ways",
        flags.pods
    ));
    let plant = Plant::start().await?;
    let port = webhook_port()?;
    plant.api.apply(&webhook_configuration(&[port])).await?;
    let address = format!("127.0.0.1:{port}");
    let more = ["--webhook-host=127.0.0.1", "--webhook-addr", &address];
    let more = [&more[..], &["--worker-image", "lockstep:bench"]].concat();
    let controller = plant.controller(flags, &more).await?;
    let groups = groups::all(&plant.client);
    groups
        .create(&PostParams::default(), &group("orders"))
        .await?;
    until("ready group", SOON, async || {
        let group = groups
            .get("orders")
            .await
            .map_err(|error| error.to_string())?;
        if is_ready(&group) {
            Ok(())
        } else {
            Err(format!("{:?}", group.status))
        }
    })
    .await?;
    until("answer of the webhook", SOON, async || {
        let probe = PostParams {
            dry_run: true,
            ..PostParams::default()
        };
        let made = pods(&plant.client)
            .create(&probe, &pod("probe", Kind::Labelled))
            .await;
        made.map(drop)
    })
    .await?;
    figures.note(PART, "pods_of_each_kind", flags.pods);
    one_by_one(&plant, &controller, (flags.pods, figures)).await?;
    side_by_side(&plant, &controller, (flags.pods, figures)).await
}

/// Sequentially: one with the label, one without, and so on.
async fn one_by_one(
    plant: &Plant,
    controller: &Controller,
    (count, figures): (usize, &mut Figures),
) -> Outcome<()> {
    let before = Histograms::now(plant, controller).await?;
    let (mut labelled, mut plain) = (Vec::new(), Vec::new());
    for n in 0..count {
        labelled.push(make(&plant.client, format!("one-{n}"), Kind::Labelled).await?);
        plain.push(make(&plant.client, format!("one-plain-{n}"), Kind::Plain).await?);
    }
    let after = Histograms::now(plant, controller).await?;
    note(figures, "sequential", (labelled, plain));
    note_histograms(figures, "sequential", (&before, &after));
    Ok(())
}

/// So many at once, the two kinds in turns.
async fn side_by_side(
    plant: &Plant,
    controller: &Controller,
    (count, figures): (usize, &mut Figures),
) -> Outcome<()> {
    let before = Histograms::now(plant, controller).await?;
    let (mut labelled, mut plain) = (Vec::new(), Vec::new());
    let numbers: Vec<usize> = (0..count).collect();
    for turn in numbers.chunks(TURN) {
        for (kind, times) in [(Kind::Labelled, &mut labelled), (Kind::Plain, &mut plain)] {
            let all = turn.iter().map(|n| {
                let name = format!(
                    "many-{}-{n}",
                    if kind == Kind::Plain { "plain" } else { "with" }
                );
                make(&plant.client, name, kind)
            });
            let made: Vec<_> = stream::iter(all).buffer_unordered(AT_ONCE).collect().await;
            times.extend(made.into_iter().collect::<Result<Vec<_>, _>>()?);
        }
    }
    let after = Histograms::now(plant, controller).await?;
    note(figures, "eight_at_once", (labelled, plain));
    note_histograms(figures, "eight_at_once", (&before, &after));
    Ok(())
}

fn note(figures: &mut Figures, how: &str, (labelled, plain): (Vec<Duration>, Vec<Duration>)) {
    let (Some(labelled), Some(plain)) = (Spread::of(labelled), Spread::of(plain)) else {
        return;
    };
    figures.spread(PART, &format!("{how}_with_label"), labelled);
    figures.spread(PART, &format!("{how}_without_label"), plain);
    let more = |with: Duration, without: Duration| {
        rounded((with.as_secs_f64() - without.as_secs_f64()) * 1000.0, 1)
    };
    let difference = json!({
        "p50_ms": more(labelled.p50, plain.p50),
        "p99_ms": more(labelled.p99, plain.p99),
    });
    figures.note(PART, &format!("{how}_difference"), difference);
}

fn note_histograms(figures: &mut Figures, how: &str, (before, after): (&Histograms, &Histograms)) {
    let both = [
        ("api_server_waited", &before.asked, &after.asked),
        ("webhook_took", &before.answered, &after.answered),
    ];
    for (name, before, after) in both {
        let buckets = exposition::since(before, after);
        let bound = |share| exposition::at_most(&buckets, share).map(|s| rounded(s * 1000.0, 2));
        let value = json!({
            "count": buckets.last().map(|(_, count)| *count),
            "p50_at_most_ms": bound(0.5),
            "p99_at_most_ms": bound(0.99),
        });
        figures.note(PART, &format!("{how}_{name}"), value);
    }
}

fn pods(client: &Client) -> Api<Pod> {
    Api::namespaced(client.clone(), NAMESPACE)
}

/// Makes a pod; how long that took.
async fn make(client: &Client, name: String, kind: Kind) -> Result<Duration, kube::Error> {
    let (pods, pod) = (pods(client), pod(&name, kind));
    let began = clock::now();
    pods.create(&PostParams::default(), &pod).await?;
    Ok(clock::now().duration_since(began))
}

fn pod(name: &str, kind: Kind) -> Pod {
    let labels = match kind {
        Kind::Labelled => json!({"lockstep.dev/consumer-group": "orders"}),
        Kind::Plain => json!({}),
    };
    let pod = json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {"name": name, "namespace": NAMESPACE, "labels": labels},
        "spec": {"containers": [{"name": "app", "image": "app:1"}]},
    });
    #[expect(clippy::expect_used, reason = "the text above is a pod")]
    serde_json::from_value(pod).expect("a Pod")
}

/// Ports of our own choice are below those of outgoing connections.
fn webhook_port() -> Outcome<u16> {
    lockstep_e2e::ports::free().ok_or_else(|| SceneError::new("no free port on 127.0.0.1"))
}

// === impl Histograms ===

impl Histograms {
    async fn now(plant: &Plant, controller: &Controller) -> Outcome<Self> {
        let asked = requests::metrics(&plant.api).await?;
        let mut asked = exposition::samples(&asked, ASKED);
        asked.retain(|(labels, _)| labels.get("name") == Some(&webhook_name(0)));
        Ok(Self {
            asked,
            answered: exposition::samples(&controller.metrics().await?, ANSWERED),
        })
    }
}
