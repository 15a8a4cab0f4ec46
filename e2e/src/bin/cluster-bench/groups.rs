//! What a watch shows of groups: when each became ready, and when the last one changed.

use std::collections::{BTreeMap, BTreeSet};
use std::pin::pin;
use std::time::{Duration, Instant};

use futures_util::{StreamExt, stream};
use kube::api::{Api, PostParams};
use kube::runtime::{WatchStreamExt, watcher};
use kube::{Client, ResourceExt};
use lockstep::crd::{ConditionStatus, ConsumerGroup};
use lockstep_e2e::clock;
use lockstep_e2e::scene::{Outcome, SceneError};
use serde_json::json;
use tokio::sync::watch;

/// Where everything lives.
pub(crate) const NAMESPACE: &str = "default";

/// The longest that anything takes.
pub(crate) const WITHIN: Duration = Duration::from_secs(900);

/// Groups whose status has not changed for so long are at rest: it is written at most every 15 s.
const QUIET: Duration = Duration::from_secs(40);

/// Groups that are made at a time.
const AT_ONCE: usize = 8;

/// When something happened to each group.
pub(crate) type Moments = BTreeMap<String, Instant>;

/// What the watch of groups has shown.
#[derive(Clone, Debug)]
pub(crate) struct Seen {
    /// When each group was first seen to be ready.
    ready: Moments,
    pub(crate) changes: u64,
    changed_at: Instant,
}

pub(crate) fn all(client: &Client) -> Api<ConsumerGroup> {
    Api::namespaced(client.clone(), NAMESPACE)
}

/// A group with a stream of its own, that is made for it.
pub(crate) fn group(name: &str) -> ConsumerGroup {
    let object = json!({
        "apiVersion": "lockstep.dev/v1alpha1", "kind": "ConsumerGroup",
        "metadata": {"name": name, "namespace": NAMESPACE},
        "spec": {
            "source": {"stream": {
                "name": name.to_uppercase(),
                "create": {"subjects": [format!("{name}.*")], "replicas": 1},
            }},
            "partitioning": {"partitions": 6, "keyTokens": [1]},
        },
    });
    #[expect(clippy::expect_used, reason = "the text above is a group")]
    serde_json::from_value(object).expect("a ConsumerGroup")
}

/// Whether a group says that it can be used.
pub(crate) fn is_ready(group: &ConsumerGroup) -> bool {
    let conditions = group.status.iter().flat_map(|status| &status.conditions);
    let mut ready = conditions.filter(|condition| condition.kind == "Ready");
    ready.any(|condition| condition.status == ConditionStatus::True)
}

/// Makes groups; when each was asked for.
pub(crate) async fn make(client: &Client, names: &[String]) -> Outcome<Moments> {
    let api = all(client);
    let made = names.iter().map(|name| {
        let api = api.clone();
        async move {
            let at = clock::now();
            let made = api.create(&PostParams::default(), &group(name)).await;
            made.map(|_| (name.clone(), at))
        }
    });
    let made: Vec<_> = stream::iter(made).buffer_unordered(AT_ONCE).collect().await;
    Ok(made.into_iter().collect::<Result<_, _>>()?)
}

/// Follows the groups beside what is done meanwhile.
pub(crate) async fn followed<T>(
    client: &Client,
    meanwhile: impl AsyncFnOnce(watch::Receiver<Seen>) -> Outcome<T>,
) -> Outcome<T> {
    let (seen, watching) = watch::channel(Seen::nothing());
    tokio::select! {
        () = follow(all(client), &seen) => Err(SceneError::new("the watch of groups has ended")),
        done = meanwhile(watching) => done,
    }
}

async fn follow(api: Api<ConsumerGroup>, seen: &watch::Sender<Seen>) {
    let events = watcher(api, watcher::Config::default()).default_backoff();
    let mut groups = pin!(events.applied_objects());
    while let Some(group) = groups.next().await {
        let Ok(group) = group else { continue };
        seen.send_modify(|seen| seen.see(&group));
    }
}

/// Waits until these groups are ready; when each became it.
pub(crate) async fn are_ready(
    seen: &mut watch::Receiver<Seen>,
    names: &[String],
) -> Outcome<Moments> {
    let names: BTreeSet<&String> = names.iter().collect();
    let all = |seen: &Seen| names.iter().all(|name| seen.ready.contains_key(*name));
    let found = tokio::time::timeout(WITHIN, seen.wait_for(all)).await;
    let late = || SceneError::new("the groups are not ready in time");
    let ready = found
        .map_err(|_| late())?
        .map_err(|_| late())?
        .ready
        .clone();
    Ok(ready
        .into_iter()
        .filter(|(name, _)| names.contains(name))
        .collect())
}

/// Waits until no group has changed for a while.
pub(crate) async fn at_rest(seen: &mut watch::Receiver<Seen>) -> Outcome<()> {
    let quiet = async {
        loop {
            let until = seen.borrow_and_update().changed_at + QUIET;
            let changed = tokio::time::timeout_at(until.into(), seen.changed());
            if changed.await.is_err() {
                return;
            }
        }
    };
    let ended = tokio::time::timeout(WITHIN, quiet).await;
    ended.map_err(|_| SceneError::new("the groups do not come to rest"))
}

/// How long it took from one to the other, of those that are in both.
pub(crate) fn spans(from: &Moments, to: &Moments) -> Vec<Duration> {
    let both = from
        .iter()
        .filter_map(|(name, from)| Some((from, to.get(name)?)));
    both.map(|(from, to)| to.duration_since(*from)).collect()
}

// === impl Seen ===

impl Seen {
    fn nothing() -> Self {
        Self {
            ready: Moments::new(),
            changes: 0,
            changed_at: clock::now(),
        }
    }

    fn see(&mut self, group: &ConsumerGroup) {
        let now = clock::now();
        self.changes += 1;
        self.changed_at = now;
        if is_ready(group) {
            self.ready.entry(group.name_any()).or_insert(now);
        }
    }
}
