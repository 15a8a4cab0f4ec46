//! What a stream is, and whether a group can read it.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use serde::Deserialize;
use serde_json::Value;

use super::make::{KEY_GROUP, KEY_MANAGER, SourcePlan, StreamOwner};
use crate::group::{Sequence, ServerTime};
use crate::nats::time;

/// A stream at the moment of looking.
#[expect(clippy::struct_excessive_bools, reason = "one per setting of a stream")]
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StreamFacts {
    /// Its name.
    pub name: String,
    /// When it was created: another time under the same name is another stream.
    pub created: ServerTime,
    /// The first message that is still there; `last + 1` in an empty stream.
    pub first: Sequence,
    /// The newest message; 0 if there never was one.
    pub last: Sequence,
    /// How many messages it holds.
    pub messages: u64,
    /// How many bytes it holds.
    pub bytes: u64,
    /// The subjects that publishers publish to.
    pub subjects: Vec<String>,
    /// What the server makes of a subject before it is stored: source and destination.
    pub transform: Option<(String, String)>,
    /// `limits`, `interest` or `workqueue`.
    pub retention: String,
    /// `file` or `memory`.
    pub storage: String,
    /// How many replicas it has.
    pub replicas: u32,
    /// Whether it is closed for ever.
    pub sealed: bool,
    /// Whether publishers may roll messages up: a message can vanish before it is read.
    pub allows_rollup: bool,
    /// Whether mirrors answer reads.
    pub mirror_direct: bool,
    /// Whether it acknowledges before it has written.
    pub persists_async: bool,
    /// Most consumers; none: the server's own limit, which is 1,000 from 2.15 on.
    pub max_consumers: Option<u32>,
    /// Oldest age of a message, in nanoseconds; 0: none.
    pub max_age: u64,
    /// Most bytes; none: no limit.
    pub max_bytes: Option<u64>,
    /// The group that it was made for, if Lockstep made it.
    pub owner: Option<StreamOwner>,
    /// The consumers that it has.
    pub consumers: u64,
    /// The server that leads it, where there are several.
    pub leader: Option<String>,
    /// The streams that the server takes messages over from.
    pub sources: Vec<SourceFacts>,
    /// The server's time at the moment of looking, where it says it.
    pub now: Option<ServerTime>,
}

/// A stream that messages are taken over from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SourceFacts {
    /// What is taken over, as it is set; none if it is set in a way that Lockstep never does.
    pub plan: Option<SourcePlan>,
    /// How many messages are still to be taken over; none while that is not known.
    pub lag: Option<u64>,
}

/// What the server says of a source is from before this: it beats every second.
const SOURCE_SILENT_AFTER: Duration = Duration::from_secs(10);

/// Why a group cannot read a stream, whatever else is done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StreamRefusal {
    /// Messages vanish when a consumer has seen them.
    Retention {
        /// The stream.
        stream: String,
        /// What it has.
        retention: String,
    },
    /// Nothing new will come.
    Sealed {
        /// The stream.
        stream: String,
    },
}

/// What works, and has a price.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum StreamWarning {
    /// A restart of the server loses it.
    MemoryStorage,
    /// The loss of one server loses it.
    SingleReplica,
    /// Publishers can remove messages before they are read.
    AllowsRollup,
    /// Mirrors may answer for it.
    MirrorDirect,
    /// Acknowledged messages can be lost with the process.
    PersistsAsync,
    /// The server's limit of 1,000 consumers per stream (2.15) applies.
    NoMaxConsumers,
}

// === impl StreamFacts ===

impl StreamFacts {
    /// Refuses what a group cannot read.
    pub fn check(&self) -> Result<(), StreamRefusal> {
        let stream = self.name.clone();
        if self.retention != "limits" {
            let retention = self.retention.clone();
            return Err(StreamRefusal::Retention { stream, retention });
        }
        if self.sealed {
            return Err(StreamRefusal::Sealed { stream });
        }
        Ok(())
    }

    /// What should be said about it.
    pub fn warnings(&self) -> Vec<StreamWarning> {
        [
            (self.storage == "memory", StreamWarning::MemoryStorage),
            (self.replicas == 1, StreamWarning::SingleReplica),
            (self.allows_rollup, StreamWarning::AllowsRollup),
            (self.mirror_direct, StreamWarning::MirrorDirect),
            (self.persists_async, StreamWarning::PersistsAsync),
            (self.max_consumers.is_none(), StreamWarning::NoMaxConsumers),
        ]
        .into_iter()
        .filter_map(|(applies, warning)| applies.then_some(warning))
        .collect()
    }
}

// === impl StreamRefusal ===

impl fmt::Display for StreamRefusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Retention { stream, retention } => write!(
                f,
                "the stream {stream} has {retention} retention: messages vanish when a consumer \
                 has seen them; a group needs a stream with limits retention"
            ),
            Self::Sealed { stream } => write!(
                f,
                "the stream {stream} is sealed: nothing can be added to it ever again; name a \
                 stream that is in use"
            ),
        }
    }
}

impl std::error::Error for StreamRefusal {}

// === impl StreamWarning ===

impl fmt::Display for StreamWarning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::MemoryStorage => "it is stored in memory: a restart of the server loses it",
            Self::SingleReplica => "it has one replica: the loss of that server loses it",
            Self::AllowsRollup => {
                "it allows roll-ups: a publisher can remove messages before they are read"
            }
            Self::MirrorDirect => "mirror_direct is on: mirrors may answer reads with old messages",
            Self::PersistsAsync => {
                "persist_mode is async: acknowledged messages can be lost with the server's process"
            }
            Self::NoMaxConsumers => {
                "max_consumers is not set: servers from 2.15 on allow 1000 consumers then"
            }
        })
    }
}

// === the server's form ===

#[derive(Deserialize)]
pub(super) struct Info {
    config: Config,
    #[serde(deserialize_with = "time::deserialize")]
    created: ServerTime,
    state: State,
    #[serde(default)]
    cluster: Option<Cluster>,
    #[serde(default)]
    sources: Option<Vec<SourceInfo>>,
    #[serde(default)]
    ts: Option<String>,
}

#[derive(Deserialize)]
struct Config {
    name: String,
    #[serde(default)]
    subjects: Option<Vec<String>>,
    #[serde(default)]
    subject_transform: Option<Transform>,
    retention: String,
    storage: String,
    #[serde(default)]
    num_replicas: u32,
    #[serde(default)]
    sealed: bool,
    #[serde(default)]
    allow_rollup_hdrs: bool,
    #[serde(default)]
    mirror_direct: bool,
    #[serde(default)]
    persist_mode: Option<String>,
    #[serde(default)]
    max_consumers: i64,
    #[serde(default)]
    max_age: u64,
    #[serde(default)]
    max_bytes: i64,
    #[serde(default)]
    metadata: BTreeMap<String, String>,
    #[serde(default)]
    sources: Option<Vec<SourceConfig>>,
}

#[derive(Clone, Deserialize)]
struct SourceConfig {
    name: String,
    #[serde(default)]
    opt_start_seq: u64,
    #[serde(default)]
    subject_transforms: Option<Vec<Transform>>,
    /// Whatever else changes what is taken over.
    #[serde(flatten)]
    other: BTreeMap<String, Value>,
}

#[derive(Deserialize)]
struct SourceInfo {
    name: String,
    #[serde(default)]
    lag: u64,
    /// Nanoseconds since its last sign of life; below 0: there was none yet.
    #[serde(default)]
    active: i64,
    #[serde(default)]
    error: Option<Value>,
}

#[derive(Clone, Deserialize)]
struct Transform {
    #[serde(default)]
    src: String,
    #[serde(default)]
    dest: String,
}

#[derive(Deserialize)]
struct State {
    messages: u64,
    bytes: u64,
    first_seq: u64,
    last_seq: u64,
    #[serde(default)]
    consumer_count: u64,
}

#[derive(Deserialize)]
struct Cluster {
    #[serde(default)]
    leader: Option<String>,
}

impl From<Info> for StreamFacts {
    fn from(info: Info) -> Self {
        let Info {
            config,
            created,
            state,
            cluster,
            sources,
            ts,
        } = info;
        let sources = sources_of(&config, &sources.unwrap_or_default());
        // An empty stream says first 0 or last + 1, depending on its past.
        let first = match state.messages {
            0 => state.last_seq + 1,
            _ => state.first_seq,
        };
        let stamp = |key: &str| config.metadata.get(key).cloned();
        let owner = stamp(KEY_MANAGER).zip(stamp(KEY_GROUP));
        Self {
            owner: owner.map(|(manager, group)| StreamOwner { manager, group }),
            name: config.name,
            created,
            first: Sequence(first),
            last: Sequence(state.last_seq),
            messages: state.messages,
            bytes: state.bytes,
            subjects: config.subjects.unwrap_or_default(),
            transform: config.subject_transform.map(|t| (t.src, t.dest)),
            retention: config.retention,
            storage: config.storage,
            replicas: config.num_replicas,
            sealed: config.sealed,
            allows_rollup: config.allow_rollup_hdrs,
            mirror_direct: config.mirror_direct,
            persists_async: config.persist_mode.as_deref() == Some("async"),
            max_consumers: u32::try_from(config.max_consumers).ok().filter(|n| *n > 0),
            max_age: config.max_age,
            max_bytes: u64::try_from(config.max_bytes).ok().filter(|n| *n > 0),
            consumers: state.consumer_count,
            leader: cluster.and_then(|c| c.leader).filter(|l| !l.is_empty()),
            sources,
            now: ts.and_then(|text| time::parse(&text)),
        }
    }
}

/// What is set, with what the server says of it.
fn sources_of(config: &Config, infos: &[SourceInfo]) -> Vec<SourceFacts> {
    let set = config.sources.iter().flatten();
    set.map(|source| {
        let mut of = infos.iter().filter(|info| info.name == source.name);
        SourceFacts {
            plan: source.clone().plan(),
            // Of two sources with one name it is not known which is meant.
            lag: of
                .next()
                .filter(|_| of.next().is_none())
                .and_then(SourceInfo::lag),
        }
    })
    .collect()
}

impl SourceConfig {
    fn plan(self) -> Option<SourcePlan> {
        let transforms = self.subject_transforms.unwrap_or_default();
        self.other.is_empty().then(|| SourcePlan {
            origin: self.name,
            from: Sequence(self.opt_start_seq),
            transforms: transforms.into_iter().map(|t| (t.src, t.dest)).collect(),
        })
    }
}

impl SourceInfo {
    /// A number is of use only while the source is alive.
    fn lag(&self) -> Option<u64> {
        let silent = u64::try_from(self.active).ok().map(Duration::from_nanos);
        let alive = silent.is_some_and(|silent| silent < SOURCE_SILENT_AFTER);
        (alive && self.error.is_none()).then_some(self.lag)
    }
}

/// Reads the server's description of a stream.
pub(super) fn from_info(info: Value) -> Result<StreamFacts, serde_json::Error> {
    serde_json::from_value::<Info>(info).map(Into::into)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn stream(change: impl FnOnce(&mut Value)) -> StreamFacts {
        let mut info = json!({
            "config": {
                "name": "orders", "subjects": ["orders.*"], "retention": "limits",
                "storage": "file", "num_replicas": 3, "max_consumers": 4096, "max_bytes": -1
            },
            "created": "2026-11-30T01:02:03.5Z",
            "state": { "messages": 2, "bytes": 100, "first_seq": 5, "last_seq": 6 }
        });
        change(&mut info);
        from_info(info).unwrap()
    }

    // P8
    #[test]
    fn only_limits_retention_is_taken() {
        assert_eq!(stream(|_| ()).check(), Ok(()));
        for retention in ["interest", "workqueue"] {
            let refusal = stream(|i| i["config"]["retention"] = json!(retention)).check();
            let text = refusal.unwrap_err().to_string();
            assert!(
                text.contains(retention) && text.contains("limits"),
                "{text}"
            );
        }
    }

    #[test]
    fn a_sealed_stream_is_refused() {
        let refusal = stream(|i| i["config"]["sealed"] = json!(true)).check();
        assert!(matches!(refusal, Err(StreamRefusal::Sealed { .. })));
    }

    #[test]
    fn each_dangerous_setting_is_warned_about() {
        assert_eq!(stream(|_| ()).warnings(), []);
        for (field, value, warning) in [
            ("storage", json!("memory"), StreamWarning::MemoryStorage),
            ("num_replicas", json!(1), StreamWarning::SingleReplica),
            (
                "allow_rollup_hdrs",
                json!(true),
                StreamWarning::AllowsRollup,
            ),
            ("mirror_direct", json!(true), StreamWarning::MirrorDirect),
            ("persist_mode", json!("async"), StreamWarning::PersistsAsync),
            ("max_consumers", json!(-1), StreamWarning::NoMaxConsumers),
        ] {
            let facts = stream(|i| i["config"][field] = value);
            assert_eq!(facts.warnings(), [warning], "{field}");
        }
    }

    #[test]
    fn what_is_left_to_take_over_is_known_only_of_a_source_that_is_alive() {
        let of = |source: Value| {
            let facts = stream(|info| {
                info["config"]["sources"] = json!([{ "name": "OLD", "opt_start_seq": 7,
                    "subject_transforms": [{ "src": "a.*", "dest": "b.*" }] }]);
                info["sources"] = json!([source]);
            });
            let [source] = &facts.sources[..] else {
                panic!("{facts:?}")
            };
            let plan = source.plan.as_ref().unwrap();
            assert_eq!((&*plan.origin, plan.from), ("OLD", Sequence(7)));
            assert_eq!(plan.transforms, [("a.*".to_owned(), "b.*".to_owned())]);
            source.lag
        };
        assert_eq!(
            of(json!({ "name": "OLD", "lag": 3, "active": 900_000_000 })),
            Some(3)
        );
        // Before its first sign of life, and long after its last one, the number means nothing.
        assert_eq!(of(json!({ "name": "OLD", "lag": 0, "active": -1 })), None);
        let long = 12_000_000_000_u64;
        assert_eq!(of(json!({ "name": "OLD", "lag": 0, "active": long })), None);
        let failed =
            json!({ "name": "OLD", "lag": 0, "active": 0, "error": { "err_code": 10059 } });
        assert_eq!(of(failed), None);
    }

    #[test]
    fn a_source_that_is_set_in_another_way_is_no_plan_of_ours() {
        let facts = stream(|info| {
            info["config"]["sources"] = json!([{ "name": "OLD", "filter_subject": "a.*" }]);
        });
        assert_eq!(facts.sources[0].plan, None);
    }

    #[test]
    fn an_empty_stream_begins_after_its_last_message() {
        let purged = stream(|i| {
            i["state"] = json!({"messages": 0, "bytes": 0, "first_seq": 7, "last_seq": 6});
        });
        assert_eq!((purged.first, purged.last), (Sequence(7), Sequence(6)));
        let new = stream(|i| {
            i["state"] = json!({"messages": 0, "bytes": 0, "first_seq": 0, "last_seq": 0});
        });
        assert_eq!((new.first, new.last), (Sequence(1), Sequence(0)));
    }
}
