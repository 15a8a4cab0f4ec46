//! Groups over a stream that cannot be changed: what is taken over, from where, and what becomes of
//! it.

use std::collections::BTreeMap;
use std::time::Duration;

use async_nats::jetstream::stream::{Config, RetentionPolicy};
use lockstep::coordinator::provision::{self, Change, Missing, ProvisionError, Provisioned, Terms};
use lockstep::group::partitioning::partition_of;
use lockstep::group::{GroupState, Sequence};
use lockstep::nats::streams;
use lockstep::nats::{Options, Role};
use lockstep::{Reader, ReaderOptions};
use lockstep_e2e::{process, until};

use super::stage::{SOON, Stage, connect, group};

/// A group over stream OLD, with more lines in its `spec`.
fn derived(name: &str, more: &str) -> String {
    format!(
        r#"apiVersion: lockstep.dev/v1alpha1
kind: ConsumerGroup
metadata:
  name: {name}
spec:
  source:
    derived:
      stream: OLD
      subjects: ["old.*.*"]
  partitioning:
    partitions: 4
    keyTokens: [2]
  membership:
    heartbeatInterval: 500ms
    sessionTimeout: 6s
    rebalanceTimeout: 5s
    initialRebalanceDelay: 500ms
    rebalanceDelay: 200ms
{more}"#
    )
}

struct Origin<'a> {
    stage: &'a Stage,
    context: async_nats::jetstream::Context,
}

impl<'a> Origin<'a> {
    async fn new(stage: &'a Stage) -> Self {
        Self::with(stage, |_| ()).await
    }

    async fn with(stage: &'a Stage, change: impl FnOnce(&mut Config)) -> Self {
        let context = async_nats::jetstream::new(stage.server.connect().await.unwrap());
        let origin = Self { stage, context };
        origin.make(change).await;
        origin
    }

    async fn make(&self, change: impl FnOnce(&mut Config)) {
        let mut config = Config {
            name: "OLD".to_owned(),
            subjects: vec!["old.>".to_owned()],
            ..Config::default()
        };
        change(&mut config);
        self.context.create_stream(config).await.unwrap();
    }

    async fn publish(&self, subject: &str, payload: &str) {
        let sent = self
            .context
            .publish(subject.to_owned(), payload.to_owned().into());
        sent.await.unwrap().await.unwrap();
    }

    /// `a`, `b`, … each to a key of its own.
    async fn publish_all(&self, payloads: &str) {
        for payload in payloads.chars() {
            let payload = payload.to_string();
            self.publish(&format!("old.eu.{payload}"), &payload).await;
        }
    }

    /// Waits until the derived stream has exactly these messages, one letter each.
    async fn arrives(&self, stream: &str, payloads: &str) {
        let what = format!("{payloads} in {stream}");
        let seen = until(what, SOON, async || {
            let now = self.content(stream).await;
            if now == payloads { Ok(()) } else { Err(now) }
        });
        seen.await.unwrap();
    }

    async fn content(&self, stream: &str) -> String {
        let Ok(facts) = streams::info(&self.stage.connection, stream).await else {
            return "no stream".to_owned();
        };
        let stream = self.context.get_stream(stream).await.unwrap();
        let mut content = String::new();
        for sequence in facts.first.0..=facts.last.0 {
            if let Ok(message) = stream.get_raw_message(sequence).await {
                content.push_str(std::str::from_utf8(&message.payload).unwrap());
            }
        }
        content
    }
}

async fn provide(stage: &Stage, yaml: &str) -> Provisioned {
    try_to_provide(stage, yaml).await.unwrap()
}

async fn try_to_provide(stage: &Stage, yaml: &str) -> Result<Provisioned, ProvisionError> {
    let terms = Terms::standalone("lockstep", Missing::Make);
    let connection = connect(&stage.server.url(), &Role::Coordinator).await;
    provision::provide(&connection, &terms, &group(yaml)).await
}

/// Runs the program, which has to go well; what it prints.
async fn run(stage: &Stage, line: &str) -> String {
    let url = stage.server.url();
    let words: Vec<&str> = line.split(' ').chain(["--nats-url", &url]).collect();
    let ended = process::run_lockstep(&words).await.unwrap();
    assert_eq!(ended.code, Some(0), "{}", ended.stderr);
    ended.stdout
}

async fn reader(stage: &Stage) -> Reader {
    let options = Options::for_url(stage.server.url());
    let options = ReaderOptions::new(options, "orders".parse().unwrap(), "r");
    Reader::connect(options).await.unwrap()
}

/// Messages by key, in the order in which they came; each in the partition of its key.
async fn read(reader: &Reader, count: usize) -> BTreeMap<String, Vec<String>> {
    let (mut got, mut seen) = (BTreeMap::<String, Vec<String>>::new(), 0);
    while seen < count {
        let messages = reader.fetch(100, SOON).await.unwrap();
        assert!(!messages.is_empty(), "{seen} of {count} came");
        reader.commit(&messages).await.unwrap();
        seen += messages.len();
        for message in messages {
            let subject = message.subject.clone();
            let tokens: Vec<&str> = subject.split('.').collect();
            let [_, number, _, key] = tokens[..] else {
                panic!("{subject}")
            };
            assert_eq!(message.partition.0.to_string(), number, "{subject}");
            assert_eq!(Some(message.partition), partition_of([key], 4), "{subject}");
            let payload = std::str::from_utf8(&message.payload).unwrap();
            got.entry(key.to_owned())
                .or_default()
                .push(payload.to_owned());
        }
    }
    got
}

// P8a
#[tokio::test]
async fn an_origin_is_read_by_key_and_in_order_across_a_restart() {
    let stage = Stage::new().await;
    let origin = Origin::new(&stage).await;
    let publish = async |numbers: std::ops::Range<u32>| {
        for number in numbers {
            let key = format!("k{}", number % 12);
            origin
                .publish(&format!("old.eu.{key}"), &number.to_string())
                .await;
            // Neither of the group's subjects: never taken over.
            origin.publish("old.other", "x").await;
        }
    };
    publish(0..36).await;
    let first = stage.with_group("c1", &derived("orders", "")).await;
    let reader = reader(&stage).await;
    let expected = |numbers: std::ops::Range<u32>| {
        let mut by_key = BTreeMap::<String, Vec<String>>::new();
        for number in numbers {
            let of_key = by_key.entry(format!("k{}", number % 12)).or_default();
            of_key.push(number.to_string());
        }
        by_key
    };
    assert_eq!(read(&reader, 36).await, expected(0..36));
    first.stop().await.unwrap();
    publish(36..60).await;
    let second = stage.with_group("c2", &derived("orders", "")).await;
    assert_eq!(read(&reader, 24).await, expected(36..60));
    let more = reader
        .fetch(1, Duration::from_millis(200))
        .await
        .unwrap_or_default();
    assert!(more.is_empty(), "{more:?}");

    // The command says the same partition as the server.
    let said = run(&stage, "partition-of orders eu.k7").await;
    let partition = partition_of(["k7"], 4).unwrap();
    assert!(said.contains(&partition.to_string()), "{said}");
    // What is published through the group goes to its origin, and comes back.
    run(&stage, "publish orders --key eu.k7 --data mine").await;
    assert_eq!(read(&reader, 1).await["k7"], ["mine"]);
    drop(reader.close(SOON).await);
    second.stop().await.unwrap();
}

// P88a
#[tokio::test]
async fn a_beginning_is_a_place_in_the_origin() {
    let stage = Stage::new().await;
    let origin = Origin::new(&stage).await;
    origin.publish_all("abc").await;
    origin.publish("old.other", "x").await;
    let middle = streams::info(&stage.connection, "OLD").await.unwrap();
    let last = streams::message_at(&stage.connection, "OLD", middle.last).await;
    let time = last.unwrap().unwrap().timestamp;
    let time = jiff::Timestamp::from_nanosecond(i128::from(time.0)).unwrap();
    origin.publish_all("de").await;
    let starts = [
        ("earliest", "{policy: Earliest}".to_owned(), "abcdef"),
        ("latest", "{policy: Latest}".to_owned(), "f"),
        (
            "third",
            "{policy: Sequence, sequence: 3}".to_owned(),
            "cdef",
        ),
        ("beyond", "{policy: Sequence, sequence: 99}".to_owned(), "f"),
        ("time", format!("{{policy: Time, time: \"{time}\"}}"), "def"),
        (
            "hour",
            "{policy: Duration, duration: 1h}".to_owned(),
            "abcdef",
        ),
    ];
    let yaml = |name: &str, start: &str| derived(name, &format!("  startFrom: {start}\n"));
    for (name, start, _) in &starts {
        provide(&stage, &yaml(name, start)).await;
    }
    // After the groups were made, and before anybody has looked where they begin.
    origin.publish_all("f").await;
    for (name, _, found) in &starts {
        origin.arrives(&format!("OLD_{name}"), found).await;
    }
    let groups: Vec<_> = starts.iter().map(|(n, s, _)| group(&yaml(n, s))).collect();
    let running = stage.start("c1", Missing::Refuse, &groups).await;
    for (name, ..) in &starts {
        stage.sees(name, "a seeded group", |d| d.seeded).await;
        for partition in 0..4 {
            let record = stage.offset(name, partition).await;
            assert_eq!(record.next_seq, Sequence(1), "{name} {partition}");
        }
    }
    running.stop().await.unwrap();
}

/// Where the server would begin if it knew nothing.
async fn set_to_begin(stage: &Stage, stream: &str) -> Sequence {
    let facts = streams::info(&stage.connection, stream).await.unwrap();
    facts.sources[0].plan.clone().unwrap().from
}

// P88b
#[tokio::test]
async fn a_derived_stream_that_goes_is_made_anew_from_where_it_began() {
    let stage = Stage::new().await;
    let origin = Origin::new(&stage).await;
    origin.publish_all("abc").await;
    let yaml = derived("orders", "  startFrom: {policy: Latest}\n");
    assert_eq!(provide(&stage, &yaml).await.change, Change::Made);
    assert_eq!(set_to_begin(&stage, "OLD_orders").await, Sequence(4));
    origin.publish_all("def").await;
    origin.arrives("OLD_orders", "def").await;
    let generation = stage.meta("orders").await.generation;
    origin.context.delete_stream("OLD_orders").await.unwrap();
    let again = provide(&stage, &yaml).await;
    assert_eq!(again.repaired.len(), 1, "{:?}", again.repaired);
    assert_eq!(stage.meta("orders").await.generation, generation);
    origin.arrives("OLD_orders", "def").await;
}

#[tokio::test]
async fn what_the_server_would_begin_with_moves_along() {
    let stage = Stage::new().await;
    let origin = Origin::new(&stage).await;
    let yaml = derived("orders", "");
    origin.publish_all("abc").await;
    provide(&stage, &yaml).await;
    origin.arrives("OLD_orders", "abc").await;
    let again = provide(&stage, &yaml).await;
    assert_eq!((again.repaired, again.drift), (Vec::new(), Vec::new()));
    assert_eq!(set_to_begin(&stage, "OLD_orders").await, Sequence(4));
    assert_eq!(provide(&stage, &yaml).await.change, Change::Nothing);
    origin.publish_all("de").await;
    origin.arrives("OLD_orders", "abcde").await;
}

// P8a
#[tokio::test]
async fn what_somebody_changed_of_a_derived_stream_is_put_right() {
    let stage = Stage::new().await;
    let origin = Origin::new(&stage).await;
    let yaml = derived("orders", "");
    origin.publish_all("ab").await;
    provide(&stage, &yaml).await;
    origin.arrives("OLD_orders", "ab").await;
    let mut stream = origin.context.get_stream("OLD_orders").await.unwrap();
    let mut config = stream.info().await.unwrap().config.clone();
    config.sources = None;
    config.subjects = vec!["mine".to_owned()];
    config.max_age = Duration::from_hours(1);
    origin.context.update_stream(config).await.unwrap();
    origin.publish_all("cd").await;
    let again = provide(&stage, &yaml).await;
    let [words] = &again.repaired[..] else {
        panic!("{again:?}")
    };
    assert!(
        words.contains("taken over from OLD") && words.contains("max_age"),
        "{words}"
    );
    origin.arrives("OLD_orders", "abcd").await;
    let facts = streams::info(&stage.connection, "OLD_orders")
        .await
        .unwrap();
    assert_eq!((facts.subjects.len(), facts.max_age), (0, 0));
}

#[tokio::test]
async fn a_stream_of_that_name_that_is_not_ours_is_left_alone() {
    let stage = Stage::new().await;
    let origin = Origin::new(&stage).await;
    let foreign = Config {
        name: "OLD_orders".to_owned(),
        subjects: vec!["mine".to_owned()],
        ..Config::default()
    };
    origin.context.create_stream(foreign).await.unwrap();
    let yaml = derived("orders", "");
    let refused = try_to_provide(&stage, &yaml).await.unwrap_err();
    assert!(
        matches!(refused, ProvisionError::StreamDiffers { .. }),
        "{refused}"
    );
    let facts = streams::info(&stage.connection, "OLD_orders")
        .await
        .unwrap();
    assert_eq!(
        (&facts.subjects[..], &facts.sources[..]),
        (&["mine".to_owned()][..], &[][..])
    );
    origin.context.delete_stream("OLD_orders").await.unwrap();

    // Two namespaces have a group of this name: the stream is the first one's.
    provide(&stage, &yaml).await;
    let other = yaml.replace("name: orders\n", "name: orders\n  namespace: other\n");
    let refused = try_to_provide(&stage, &other).await.unwrap_err();
    assert!(
        matches!(&refused, ProvisionError::StreamOfAnother { owner, .. } if owner == "default/orders"),
        "{refused}"
    );
}

#[tokio::test]
async fn a_group_that_is_deleted_takes_the_derived_stream_along_and_never_the_origin() {
    let stage = Stage::new().await;
    let origin = Origin::new(&stage).await;
    let yaml = derived("orders", "");
    origin.publish_all("abc").await;
    let made = provide(&stage, &yaml).await;
    assert_eq!(made.streams, [("OLD_orders".to_owned(), true)]);
    origin.arrives("OLD_orders", "abc").await;
    let terms = Terms::standalone("lockstep", Missing::Refuse);
    let removed = provision::remove(&stage.connection, &terms, &made.group).await;
    assert_eq!(
        removed.unwrap(),
        [
            "OLD_orders".to_owned(),
            "lockstep_default_orders".to_owned()
        ]
    );
    assert_eq!(origin.content("OLD").await, "abc");
    assert_eq!(origin.content("OLD_orders").await, "no stream");

    // The same by the command.
    provide(&stage, &yaml).await;
    run(&stage, "group delete orders").await;
    assert_eq!(origin.content("OLD").await, "abc");
    assert_eq!(origin.content("OLD_orders").await, "no stream");
}

#[tokio::test]
async fn a_manager_that_takes_a_group_over_stamps_its_streams() {
    let stage = Stage::new().await;
    let _origin = Origin::new(&stage).await;
    let yaml = derived("orders", "");
    provide(&stage, &yaml).await;
    let terms = Terms {
        manager: "kubernetes/uid".to_owned(),
        adopt_from: Some("standalone".to_owned()),
        ..Terms::standalone("lockstep", Missing::Make)
    };
    let adopted = provision::provide(&stage.connection, &terms, &group(&yaml)).await;
    let adopted = adopted.unwrap();
    assert!(matches!(adopted.change, Change::Adopted(_)));
    assert_eq!(adopted.streams, [("OLD_orders".to_owned(), true)]);
    assert_eq!(adopted.repaired, Vec::<String>::new());
    let facts = streams::info(&stage.connection, "OLD_orders")
        .await
        .unwrap();
    assert_eq!(facts.owner.unwrap().manager, "kubernetes/uid");
}

// P8
#[tokio::test]
async fn an_origin_has_to_be_there_and_to_keep_its_messages() {
    let stage = Stage::new().await;
    let yaml = derived("orders", "");
    let refused = try_to_provide(&stage, &yaml).await.unwrap_err();
    assert!(
        matches!(&refused, ProvisionError::StreamNotFound { stream, .. } if stream == "OLD"),
        "{refused}"
    );
    for retention in [RetentionPolicy::Interest, RetentionPolicy::WorkQueue] {
        let origin = Origin::with(&stage, |config| config.retention = retention).await;
        let refused = try_to_provide(&stage, &yaml).await.unwrap_err();
        assert!(
            matches!(refused, ProvisionError::Unreadable { .. }),
            "{refused}"
        );
        assert_eq!(origin.content("OLD_orders").await, "no stream");
        origin.context.delete_stream("OLD").await.unwrap();
    }
}

// P88b
#[tokio::test]
async fn an_origin_that_goes_is_named_and_so_is_another_one_in_its_place() {
    let stage = Stage::new().await;
    let origin = Origin::new(&stage).await;
    let yaml = derived("orders", "");
    origin.publish_all("abc").await;
    provide(&stage, &yaml).await;
    origin.arrives("OLD_orders", "abc").await;
    origin.context.delete_stream("OLD").await.unwrap();
    let without = provide(&stage, &yaml).await;
    assert_eq!(without.gone, ["OLD"]);
    let what = "the command to say that it is not known what the origin has";
    until(what, SOON, async || {
        let said = run(&stage, "group describe orders").await;
        if said.contains("not known how many messages have not come over") {
            Ok(())
        } else {
            Err(said)
        }
    })
    .await
    .unwrap();
    assert_eq!(stage.meta("orders").await.state, GroupState::Active);
    assert_eq!(origin.content("OLD_orders").await, "abc");
    origin.make(|_| ()).await;
    let with_another = provide(&stage, &yaml).await;
    let [words] = &with_another.renewed[..] else {
        panic!("{with_another:?}")
    };
    assert!(words.contains("stream OLD was made anew"), "{words}");
    origin.publish_all("xyz").await;
    origin.context.delete_stream("OLD_orders").await.unwrap();
    let anew = provide(&stage, &yaml).await;
    assert_eq!((anew.renewed.len(), anew.repaired.len()), (0, 1));
    origin.arrives("OLD_orders", "xyz").await;
    let known = stage.meta("orders").await.streams["OLD"].clone();
    let facts = streams::info(&stage.connection, "OLD").await.unwrap();
    assert_eq!(
        (known.created, known.taken_from),
        (facts.created, Some(Sequence(1)))
    );
    assert!(provide(&stage, &yaml).await.renewed.is_empty());
    // Without the origin nothing is made.
    origin.context.delete_stream("OLD").await.unwrap();
    origin.context.delete_stream("OLD_orders").await.unwrap();
    let neither = provide(&stage, &yaml).await;
    assert_eq!(
        (&neither.gone[..], neither.repaired.len()),
        (&["OLD".to_owned()][..], 0)
    );
}
