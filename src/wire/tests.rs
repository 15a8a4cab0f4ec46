//! Golden files: `golden/<kind>.<format>.json`. `BLESS=1 cargo test` writes missing ones.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use proptest::prelude::*;

use super::keys::Key;
use super::{DecodeError, EncodeError, candidate, group, member, meta, offset};
use crate::group::*;

fn incarnation(name: &str) -> Incarnation {
    name.parse().unwrap()
}

#[expect(clippy::too_many_lines, reason = "a table of fields")]
fn a_meta() -> Meta {
    Meta {
        bucket: BucketId::new("b0c4e7"),
        manager: "standalone".to_owned(),
        generation: MetaGeneration(3),
        group_uid: String::new(),
        state: GroupState::Active,
        source: Source::Stream {
            stream: "ORDERS".to_owned(),
            partitions: 8,
            filter: "orders.{partition}.*".to_owned(),
            transform: Some(Transform {
                subjects: vec!["orders.*".to_owned()],
                key_tokens: vec![1],
                origin: None,
            }),
        },
        streams: [(
            "ORDERS".to_owned(),
            StreamIdentity {
                created: ServerTime(1_790_000_000_000),
                taken_from: None,
            },
        )]
        .into(),
        start_from: StartFrom::Duration {
            duration: Duration::from_mins(60),
        },
        delivery: Delivery {
            max_in_flight: 1,
            batch: 100,
            fetch_wait: Duration::from_secs(5),
            batch_wait: Duration::from_millis(5),
            buffer_messages: 5000,
            buffer_bytes: 16 << 20,
            retry: Retry {
                max_attempts: 5,
                initial: Duration::from_millis(200),
                max: Duration::from_secs(30),
                factor: 2.0,
            },
            on_failure: OnFailure::Block,
            commit_interval: Duration::from_millis(100),
            max_uncommitted: 1000,
        },
        membership: Membership {
            assignor: AssignorSetting::Manual {
                map: [("a".to_owned(), [Partition(0), Partition(3)].into())].into(),
            },
            heartbeat_interval: Duration::from_secs(3),
            session_timeout: Duration::from_secs(20),
            rebalance_timeout: Duration::from_mins(1),
            processing_timeout: Duration::from_mins(5),
            initial_rebalance_delay: Duration::from_secs(3),
            rebalance_delay: Duration::from_secs(1),
            balance_interval: Duration::from_secs(10),
            max_members: 64,
        },
        on_truncation: OnTruncation::Stop,
        on_gap: OnGap::Earliest,
        pause: Pause {
            all: false,
            partitions: [Partition(2)].into(),
        },
        resumed: [(Partition(5), MetaGeneration(2))].into(),
        unknown: Unknown::new(),
    }
}

fn a_group() -> GroupDocument {
    let entry = |id: &str, standing| MemberEntry {
        id: MemberId::new(id),
        zone: None,
        standing,
    };
    GroupDocument {
        term: Term(4),
        holder: Some(incarnation("c1")),
        epoch: GroupEpoch(1_790_000_007),
        meta_generation: MetaGeneration(3),
        seeded: true,
        input_hash: u64::MAX - 1,
        members: [
            (incarnation("m1"), entry("pod-1", Standing::Active)),
            (incarnation("m2"), entry("pod-2", Standing::Draining)),
            (
                incarnation("m3"),
                entry("pod-3", Standing::Standby(StandbyReason::Surplus)),
            ),
        ]
        .into(),
        partitions: vec![
            Assignment {
                owner: Some(incarnation("m1")),
                epoch: Epoch(7),
                target: Some(incarnation("m1")),
                unclean: true,
            },
            Assignment {
                owner: Some(incarnation("m2")),
                epoch: Epoch(9),
                target: Some(incarnation("m1")),
                unclean: false,
            },
            Assignment {
                owner: None,
                epoch: Epoch(2),
                target: None,
                unclean: false,
            },
        ],
        reason: "m2 leaves".to_owned(),
        unknown: Unknown::new(),
    }
}

fn a_member() -> MemberDocument {
    MemberDocument {
        bucket: BucketId::new("b0c4e7"),
        id: MemberId::new("pod-1"),
        beat: Beat(17),
        session_timeout: Duration::from_secs(20),
        formats: Formats::CURRENT,
        state: MemberState::Active,
        pod: Some(Pod {
            uid: "u-1".to_owned(),
            node: "n-1".to_owned(),
        }),
        zone: Some("z".to_owned()),
        version: "0.1.0".to_owned(),
        app: App {
            connected: true,
            seen: true,
            since_ms: 1200,
        },
        seen_epoch: GroupEpoch(1_790_000_007),
        held: vec![Held {
            partition: Partition(0),
            epoch: Epoch(7),
            state: HoldState::Feeding,
            position: Sequence(20),
            committed: Sequence(18),
            in_flight: 1,
            pending: Some(4),
            head_attempts: 0,
        }],
        released: vec![Released {
            partition: Partition(1),
            epoch: Epoch(8),
            clean: true,
        }],
        unknown: Unknown::new(),
    }
}

fn an_offset() -> OffsetRecord {
    OffsetRecord {
        epoch: Epoch(7),
        owner: Some(incarnation("m1")),
        next_seq: Sequence(18),
        mark: Some(Mark {
            seq: Sequence(17),
            ts: ServerTime(1_790_000_000_000_000_001),
        }),
        stream: "ORDERS".to_owned(),
        stream_created: ServerTime(1_790_000_000_000),
        head: Some(Head {
            seq: Sequence(18),
            attempts: 2,
            last_error: "no".to_owned(),
        }),
        stopped: Some(Stopped {
            seq: Sequence(18),
            reason: StopReason::MessageStuck,
            detail: "failed 5 times".to_owned(),
            generation: MetaGeneration(3),
        }),
        unknown: Unknown::new(),
    }
}

fn a_candidate() -> CandidateDocument {
    CandidateDocument {
        left: false,
        id: "host-1".to_owned(),
        priority: 5,
        beat: Beat(2),
        formats: Formats::CURRENT,
        unknown: Unknown::new(),
    }
}

fn check_golden<T: PartialEq + std::fmt::Debug>(
    name: &str,
    value: &T,
    encode: impl Fn(&T) -> Result<Vec<u8>, EncodeError>,
    decode: impl Fn(&[u8]) -> Result<T, DecodeError>,
) {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR"))
        .join("src/wire/golden")
        .join(name);
    let ours: serde_json::Value = serde_json::from_slice(&encode(value).unwrap()).unwrap();
    if std::env::var_os("BLESS").is_some() && !path.exists() {
        std::fs::write(&path, serde_json::to_string_pretty(&ours).unwrap() + "\n").unwrap();
    }
    let golden = std::fs::read(&path).unwrap();
    assert_eq!(
        &decode(&golden).unwrap(),
        value,
        "{name} means something else now"
    );
    let golden: serde_json::Value = serde_json::from_slice(&golden).unwrap();
    assert_eq!(ours, golden, "{name} is written differently now");
}

#[test]
fn every_document_is_as_its_golden_file_says() {
    check_golden("meta.1.json", &a_meta(), meta::encode, meta::decode);
    check_golden("group.1.json", &a_group(), group::encode, group::decode);
    check_golden("member.1.json", &a_member(), member::encode, member::decode);
    check_golden(
        "offset.1.json",
        &an_offset(),
        offset::encode,
        offset::decode,
    );
    check_golden(
        "candidate.1.json",
        &a_candidate(),
        candidate::encode,
        candidate::decode,
    );
}

// P11
#[test]
fn fields_of_a_newer_version_survive_a_rewrite() {
    let edit = |bytes: Vec<u8>| {
        let mut value: serde_json::Value = serde_json::from_slice(&bytes).unwrap();
        value["later"] = serde_json::json!({"a": [1, -2, 0.5, null, "x", true]});
        serde_json::to_vec(&value).unwrap()
    };
    let kept = |bytes: Vec<u8>| {
        let value: serde_json::Value = serde_json::from_slice(&bytes).unwrap();
        assert_eq!(
            value["later"],
            serde_json::json!({"a": [1, -2, 0.5, null, "x", true]})
        );
    };
    let bytes = edit(offset::encode(&an_offset()).unwrap());
    kept(offset::encode(&offset::decode(&bytes).unwrap()).unwrap());
    let bytes = edit(group::encode(&a_group()).unwrap());
    kept(group::encode(&group::decode(&bytes).unwrap()).unwrap());
    let bytes = edit(meta::encode(&a_meta()).unwrap());
    kept(meta::encode(&meta::decode(&bytes).unwrap()).unwrap());
}

// P11
#[test]
fn an_unknown_format_is_refused_by_name() {
    let mut value: serde_json::Value =
        serde_json::from_slice(&offset::encode(&an_offset()).unwrap()).unwrap();
    value["format"] = 2.into();
    let refused = offset::decode(&serde_json::to_vec(&value).unwrap()).unwrap_err();
    assert!(matches!(
        refused,
        DecodeError::UnknownFormat {
            found: 2,
            known: 1,
            ..
        }
    ));
    assert!(
        refused.to_string().contains("offset document has format 2"),
        "{refused}"
    );
}

#[test]
fn an_owner_outside_the_member_table_cannot_be_written_nor_read() {
    let mut document = a_group();
    document.members.remove(&incarnation("m2"));
    assert!(group::encode(&document).is_err());
    let text = String::from_utf8(group::encode(&a_group()).unwrap()).unwrap();
    let broken = text.replace("[1,9,0,0]", "[3,9,0,0]");
    assert_ne!(text, broken);
    assert!(matches!(
        group::decode(broken.as_bytes()),
        Err(DecodeError::Damaged { .. })
    ));
}

// P16
#[test]
fn a_thousand_partitions_stay_under_fifty_kilobytes() {
    let members: BTreeMap<_, _> = (0..100)
        .map(|n| {
            let entry = MemberEntry {
                id: MemberId::new(format!("order-app-7d9f8b6c5-{n:05}")),
                zone: Some("europe-west1-b".to_owned()),
                standing: Standing::Active,
            };
            (incarnation(&format!("k3v9x2m7q{n:03}")), entry)
        })
        .collect();
    let owner = |p: usize| members.keys().nth(p % members.len()).cloned();
    let partitions = (0..1000)
        .map(|p| Assignment {
            owner: owner(p),
            epoch: Epoch(1000),
            target: owner(p + 1),
            unclean: true,
        })
        .collect();
    let document = GroupDocument {
        members: members.clone(),
        partitions,
        ..a_group()
    };
    let size = group::encode(&document).unwrap().len();
    assert!(size < 50 * 1024, "{size} bytes");
}

#[test]
fn keys_are_read_as_they_are_written_and_what_is_foreign_stays_foreign() {
    for key in [
        Key::Meta,
        Key::Group,
        Key::Member(incarnation("m1")),
        Key::Offset(Partition(1023)),
        Key::Candidate(incarnation("c1")),
        Key::Reset("r-1".to_owned()),
    ] {
        assert_eq!(Key::parse(&key.to_string()), key);
    }
    for text in [
        "",
        "offset",
        "offset.07",
        "offset.-1",
        "member.a.b",
        "meta.x",
        "reset.",
        "x.y",
    ] {
        assert_eq!(Key::parse(text), Key::Foreign(text.to_owned()));
    }
}

proptest! {
    #[test]
    fn no_bytes_make_a_decoder_panic(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
        drop(meta::decode(&bytes));
        drop(group::decode(&bytes));
        drop(member::decode(&bytes));
        drop(offset::decode(&bytes));
        drop(candidate::decode(&bytes));
    }

    /// A document with one byte changed is refused or read; it never brings a process down.
    #[test]
    fn no_damaged_byte_makes_a_decoder_panic(at in any::<prop::sample::Index>(), byte in any::<u8>()) {
        let mut bytes = group::encode(&a_group()).unwrap();
        let at = at.index(bytes.len());
        bytes[at] = byte;
        if let Ok(document) = group::decode(&bytes) {
            prop_assert!(group::encode(&document).is_ok());
        }
        let mut bytes = meta::encode(&a_meta()).unwrap();
        let at = at % bytes.len();
        bytes[at] = byte;
        if let Ok(document) = meta::decode(&bytes) {
            prop_assert!(meta::encode(&document).is_ok());
        }
    }

    #[test]
    fn any_text_is_a_key_and_prints_as_it_came(text in ".{0,40}") {
        prop_assert_eq!(Key::parse(&text).to_string(), text);
    }
}
