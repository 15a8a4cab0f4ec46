//! What an API server was asked, by its own count.
//!
//! It does not count by user, and asks itself as well: what it is asked without the controller is
//! counted first, and taken off.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use lockstep_e2e::clock;
use lockstep_e2e::cluster::ApiServer;
use lockstep_e2e::figures::rounded;
use lockstep_e2e::scene::{Outcome, SceneError};
use serde_json::Value;

use crate::exposition;

/// Requests by verb and resource, such as `GET secrets`.
type Counts = BTreeMap<String, f64>;

/// All requests up to a moment. A watch is counted when it ends.
#[derive(Clone, Debug)]
pub(crate) struct Requests {
    at: Instant,
    counts: Counts,
}

/// Requests per minute.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Rates {
    rates: Counts,
    /// For how long they were counted.
    within: Duration,
}

// === impl Requests ===

impl Requests {
    pub(crate) async fn now(api: &ApiServer) -> Outcome<Self> {
        let text = metrics(api).await?;
        Ok(Self {
            at: clock::now(),
            counts: counts(&text),
        })
    }

    pub(crate) fn since(&self, before: &Self) -> Rates {
        rates(
            &before.counts,
            &self.counts,
            self.at.duration_since(before.at),
        )
    }
}

/// What the API server shows of itself.
pub(crate) async fn metrics(api: &ApiServer) -> Outcome<String> {
    let done = api.kubectl(&["get", "--raw", "/metrics"]).await?;
    if done.code == Some(0) {
        Ok(done.stdout)
    } else {
        Err(SceneError::new(done.stderr))
    }
}

fn counts(text: &str) -> Counts {
    let mut counts = Counts::new();
    for (labels, value) in exposition::samples(text, "apiserver_request_total") {
        let label = |name: &str| labels.get(name).map(String::as_str).unwrap_or_default();
        let resource = match (label("resource"), label("subresource")) {
            // Its own `/metrics`, `/readyz` and so on.
            ("", _) => continue,
            (resource, "") => resource.to_owned(),
            (resource, sub) => format!("{resource}/{sub}"),
        };
        *counts
            .entry(format!("{} {resource}", label("verb")))
            .or_default() += value;
    }
    counts
}

fn rates(before: &Counts, after: &Counts, within: Duration) -> Rates {
    let minutes = within.as_secs_f64() / 60.0;
    let all = after.iter().map(|(what, count)| {
        let more = count - before.get(what).copied().unwrap_or_default();
        (what.clone(), more / minutes)
    });
    Rates {
        rates: all.filter(|(_, rate)| *rate > 0.0).collect(),
        within,
    }
}

// === impl Rates ===

impl Rates {
    /// All requests by kind, not per minute.
    pub(crate) fn all(&self) -> Value {
        let minutes = self.within.as_secs_f64() / 60.0;
        let all = self.rates.iter();
        let counted =
            all.map(|(what, rate)| (what.clone(), Value::from(rounded(rate * minutes, 0))));
        Value::Object(counted.collect())
    }

    /// Without what there was before.
    pub(crate) fn without(&self, usual: &Self) -> Self {
        let own = self.rates.iter().map(|(what, rate)| {
            let usual = usual.rates.get(what).copied().unwrap_or_default();
            (what.clone(), (rate - usual).max(0.0))
        });
        Self {
            rates: own.filter(|(_, rate)| *rate >= 0.05).collect(),
            within: self.within,
        }
    }

    pub(crate) fn total(&self) -> f64 {
        rounded(self.rates.values().sum(), 1)
    }

    pub(crate) fn json(&self) -> Value {
        let all = self.rates.iter();
        let rounded = all.map(|(what, rate)| (what.clone(), Value::from(rounded(*rate, 1))));
        Value::Object(rounded.collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_are_told_apart_by_verb_and_resource_and_the_usual_ones_are_taken_off() {
        let look = |secrets: u32, leases: u32| {
            counts(&format!(
                "apiserver_request_total{{code=\"200\",resource=\"secrets\",verb=\"GET\"}} {secrets}\n\
                 apiserver_request_total{{code=\"404\",resource=\"secrets\",verb=\"GET\"}} 1\n\
                 apiserver_request_total{{resource=\"leases\",verb=\"PUT\"}} {leases}\n\
                 apiserver_request_total{{resource=\"pods\",subresource=\"status\",verb=\"APPLY\"}} 5\n\
                 apiserver_request_total{{resource=\"\",verb=\"GET\"}} 100\n"
            ))
        };
        let minutes = |count: u64| Duration::from_secs(60 * count);
        let usual = rates(&look(0, 0), &look(0, 6), minutes(1));
        let seen = rates(&look(0, 6), &look(4, 20), minutes(2));
        let own = seen.without(&usual);
        let wanted = [
            ("GET secrets".to_owned(), 2.0),
            ("PUT leases".to_owned(), 1.0),
        ];
        assert_eq!(own.rates, wanted.into());
        assert!((own.total() - 3.0).abs() < f64::EPSILON);
    }
}
