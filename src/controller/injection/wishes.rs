//! What a pod's annotations ask for.

use std::time::Duration;

use k8s_openapi::api::core::v1::Pod;

use super::{Denial, annotation, quantity};
use crate::crd::DurationText;
use crate::k8s::names;

/// What a pod's annotations ask for.
#[derive(Clone, Debug, Default)]
pub(super) struct Wishes {
    pub(super) containers: Option<Vec<String>>,
    pub(super) image: Option<String>,
    pub(super) cpu_request: Option<String>,
    pub(super) memory_request: Option<String>,
    pub(super) cpu_limit: Option<String>,
    pub(super) memory_limit: Option<String>,
    pub(super) log_level: Option<String>,
    pub(super) drain_timeout: Option<Duration>,
    pub(super) adjust_grace: bool,
    pub(super) metrics_port: Option<u16>,
}

/// The longest drain that makes sense to anybody; the worker takes no longer one.
const LONGEST_DRAIN: Duration = Duration::from_secs(3600);

// === impl Wishes ===

impl Wishes {
    pub(super) fn of(pod: &Pod) -> Result<Self, Denial> {
        Ok(Self {
            containers: read(
                pod,
                names::CONTAINERS,
                "names of containers, such as \"app,other\"",
                list,
            )?,
            image: read(
                pod,
                names::WORKER_IMAGE,
                "an image, such as registry/lockstep:1.0",
                image,
            )?,
            cpu_request: read(pod, names::WORKER_CPU_REQUEST, AN_AMOUNT, amount)?,
            memory_request: read(pod, names::WORKER_MEMORY_REQUEST, AN_AMOUNT, amount)?,
            cpu_limit: read(pod, names::WORKER_CPU_LIMIT, AN_AMOUNT, amount)?,
            memory_limit: read(pod, names::WORKER_MEMORY_LIMIT, AN_AMOUNT, amount)?,
            log_level: read(
                pod,
                names::LOG_LEVEL,
                "error, warn, info, debug or trace",
                level,
            )?,
            drain_timeout: read(
                pod,
                names::DRAIN_TIMEOUT,
                "a duration of at most 1h, such as 20s or 2m",
                drain,
            )?,
            adjust_grace: read(
                pod,
                names::ADJUST_GRACE_PERIOD,
                "\"true\" or \"false\"",
                flag,
            )?
            .unwrap_or(false),
            metrics_port: read(pod, names::METRICS_PORT, "a port, or 0 for none", |text| {
                text.parse().ok()
            })?,
        })
    }
}

const AN_AMOUNT: &str = "an amount, such as 20m or 64Mi";

fn read<T>(
    pod: &Pod,
    name: &'static str,
    expected: &'static str,
    meaning: impl Fn(&str) -> Option<T>,
) -> Result<Option<T>, Denial> {
    let Some(text) = annotation(pod, name) else {
        return Ok(None);
    };
    let meant = meaning(text).ok_or_else(|| Denial::annotation(name, text, expected))?;
    Ok(Some(meant))
}

fn list(text: &str) -> Option<Vec<String>> {
    let items = text.split(',').map(str::trim);
    let items: Vec<String> = items.map(str::to_owned).collect();
    items.iter().all(|item| !item.is_empty()).then_some(items)
}

fn image(text: &str) -> Option<String> {
    let fits = !text.is_empty() && text.chars().all(|c| c.is_ascii_graphic());
    fits.then(|| text.to_owned())
}

fn amount(text: &str) -> Option<String> {
    quantity::parse(text).map(|_| text.to_owned())
}

fn level(text: &str) -> Option<String> {
    let known = ["error", "warn", "info", "debug", "trace"];
    known.contains(&text).then(|| text.to_owned())
}

fn drain(text: &str) -> Option<Duration> {
    let duration = DurationText::from(text).parse()?;
    (duration <= LONGEST_DRAIN).then_some(duration)
}

fn flag(text: &str) -> Option<bool> {
    text.parse().ok()
}
