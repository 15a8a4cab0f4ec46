use std::collections::BTreeSet;
use std::time::Duration;

use super::*;
use crate::group::{
    App, Assignment, AssignorSetting, Beat, BucketId, Delivery, Epoch, Formats, GroupEpoch, Head,
    Held, HoldState, MemberEntry, MemberId, MemberState, Membership, MetaGeneration, OnFailure,
    OnGap, OnTruncation, Pause, Retry, Source, StandbyReason, StartFrom, StopReason, Stopped, Term,
    Unknown,
};

const NOW: ServerTime = ServerTime(1_000_000_000_000);
const STREAM_MADE: ServerTime = ServerTime(5);

fn inc(name: &str) -> Incarnation {
    name.parse().unwrap()
}

fn meta(partitions: u32) -> Meta {
    let ms = Duration::from_millis;
    Meta {
        bucket: BucketId::new("b1"),
        manager: "standalone".into(),
        generation: MetaGeneration(3),
        group_uid: String::new(),
        state: GroupState::Active,
        source: Source::Stream {
            stream: "ORDERS".into(),
            partitions,
            filter: "orders.{partition}.*".into(),
            transform: None,
        },
        streams: BTreeMap::new(),
        start_from: StartFrom::Earliest,
        delivery: Delivery {
            max_in_flight: 1,
            batch: 100,
            fetch_wait: ms(5000),
            batch_wait: ms(5),
            buffer_messages: 5000,
            buffer_bytes: 1 << 24,
            retry: Retry {
                max_attempts: 5,
                initial: ms(200),
                max: ms(30_000),
                factor: 2.0,
            },
            on_failure: OnFailure::Block,
            commit_interval: ms(100),
            max_uncommitted: 1000,
        },
        membership: Membership {
            assignor: AssignorSetting::Sticky,
            heartbeat_interval: ms(3000),
            session_timeout: ms(20_000),
            rebalance_timeout: ms(60_000),
            processing_timeout: ms(300_000),
            initial_rebalance_delay: ms(3000),
            rebalance_delay: ms(1000),
            balance_interval: ms(10_000),
            max_members: 64,
        },
        on_truncation: OnTruncation::Stop,
        on_gap: OnGap::Earliest,
        pause: Pause::default(),
        resumed: BTreeMap::new(),
        unknown: Unknown::new(),
    }
}

fn record(owner: &str, epoch: u64, next: u64) -> OffsetRecord {
    OffsetRecord {
        epoch: Epoch(epoch),
        owner: Some(inc(owner)),
        next_seq: Sequence(next),
        mark: None,
        stream: "ORDERS".into(),
        stream_created: STREAM_MADE,
        head: None,
        stopped: None,
        unknown: Unknown::new(),
    }
}

fn heartbeat(id: &str, held: Vec<Held>) -> MemberDocument {
    MemberDocument {
        bucket: BucketId::new("b1"),
        id: MemberId::new(id),
        beat: Beat(9),
        session_timeout: Duration::from_secs(20),
        formats: Formats::CURRENT,
        state: MemberState::Active,
        pod: None,
        zone: None,
        version: "0.1.0".into(),
        app: App {
            connected: true,
            seen: true,
            since_ms: 5,
        },
        seen_epoch: GroupEpoch(7),
        held,
        released: Vec::new(),
        unknown: Unknown::new(),
    }
}

fn held(p: u32, epoch: u64, pending: Option<u64>) -> Held {
    Held {
        partition: Partition(p),
        epoch: Epoch(epoch),
        state: HoldState::Feeding,
        position: Sequence(1),
        committed: Sequence(1),
        in_flight: 1,
        pending,
        head_attempts: 0,
    }
}

fn owned(owner: &str, epoch: u64) -> Assignment {
    let owner = Some(inc(owner));
    Assignment {
        target: owner.clone(),
        owner,
        epoch: Epoch(epoch),
        unclean: false,
    }
}

fn entry(id: &str, standing: Standing) -> MemberEntry {
    MemberEntry {
        id: MemberId::new(id),
        zone: None,
        standing,
    }
}

fn candidate(id: &str) -> Heard<CandidateDocument> {
    let document = CandidateDocument {
        id: id.into(),
        priority: 0,
        beat: Beat(3),
        formats: Formats::CURRENT,
        left: false,
        unknown: Unknown::new(),
    };
    Heard { document, at: NOW }
}

/// Two partitions, each owned by one of two healthy members, 30 messages behind altogether.
fn healthy() -> Seen {
    let document = GroupDocument {
        term: Term(4),
        holder: Some(inc("c1")),
        epoch: GroupEpoch(7),
        meta_generation: MetaGeneration(3),
        seeded: true,
        members: BTreeMap::from([
            (inc("a1"), entry("pod-a", Standing::Active)),
            (inc("b1"), entry("pod-b", Standing::Active)),
        ]),
        partitions: vec![owned("a1", 11), owned("b1", 12)],
        reason: "pod-b joined".into(),
        ..GroupDocument::default()
    };
    let heard = |document| Heard {
        document,
        at: ServerTime(NOW.0 - 2_000_000_000),
    };
    Seen {
        group: "shop/orders".parse().unwrap(),
        meta: meta(2),
        document: Found::Read(document),
        members: BTreeMap::from([
            (
                inc("a1"),
                heard(heartbeat("pod-a", vec![held(0, 11, Some(9))])),
            ),
            (
                inc("b1"),
                heard(heartbeat("pod-b", vec![held(1, 12, Some(19))])),
            ),
        ]),
        candidates: BTreeMap::from([(inc("c1"), candidate("host-1"))]),
        offsets: BTreeMap::from([
            (Partition(0), Found::Read(record("a1", 11, 60))),
            (Partition(1), Found::Read(record("b1", 12, 50))),
        ]),
        streams: BTreeMap::from([(
            "ORDERS".into(),
            StreamSeen {
                created: STREAM_MADE,
                first: Sequence(1),
                end: Sequence(101),
            },
        )]),
        stored: BTreeMap::new(),
        problems: Vec::new(),
        now: NOW,
    }
}

fn document(seen: &mut Seen) -> &mut GroupDocument {
    match &mut seen.document {
        Found::Read(document) => document,
        Found::Absent | Found::Damaged(_) => panic!("no document"),
    }
}

fn offset(seen: &mut Seen, p: u32) -> &mut OffsetRecord {
    match seen.offsets.get_mut(&Partition(p)) {
        Some(Found::Read(record)) => record,
        _ => panic!("no record"),
    }
}

fn words(seen: &Seen) -> (GroupWord, Vec<PartitionWord>) {
    let view = view(seen);
    (
        view.state,
        view.partitions.iter().map(|p| p.state).collect(),
    )
}

#[test]
fn a_healthy_group_shows_owners_positions_and_the_sum_of_what_owners_report() {
    let view = view(&healthy());
    assert_eq!(view.state, GroupWord::Stable);
    assert_eq!((view.epoch, view.term), (Some(7), Some(4)));
    assert_eq!(view.coordinator.as_deref(), Some("host-1"));
    assert_eq!((view.members, view.standby, view.assigned), (2, 0, 2));
    assert_eq!(
        (view.total_lag, view.total_lag_source),
        (Some(30), "reported")
    );
    let row = &view.partitions[1];
    assert_eq!(row.owner.as_deref(), Some("pod-b"));
    assert_eq!((row.committed, row.end), (Some(50), Some(101)));
    assert_eq!(
        (row.epoch, row.lag, row.in_flight),
        (Some(12), Some(20), Some(1))
    );
    assert_eq!(row.state, PartitionWord::Feeding);
    assert!(view.problems.is_empty());
}

#[test]
fn the_json_of_a_group_has_the_columns_of_its_table_in_snake_case() {
    let json = serde_json::to_value(view(&healthy())).unwrap();
    for name in [
        "group",
        "state",
        "epoch",
        "coordinator",
        "members",
        "total_lag",
    ] {
        assert!(!json[name].is_null(), "{name} in {json}");
    }
    let row = &json["partitions"][0];
    let columns = [
        "partition",
        "stream",
        "owner",
        "epoch",
        "committed",
        "end",
        "lag",
        "in_flight",
        "state",
    ];
    for name in columns {
        assert!(!row[name].is_null(), "{name} in {row}");
    }
    assert_eq!(row["state"], "feeding");
    assert_eq!(json["state"], "Stable");
}

#[test]
fn a_report_of_an_owner_that_fell_silent_counts_no_more() {
    let mut seen = healthy();
    seen.members.get_mut(&inc("a1")).unwrap().at = ServerTime(NOW.0 - 21_000_000_000);
    assert_eq!(
        words(&seen).1,
        [PartitionWord::Silent, PartitionWord::Feeding]
    );
    let shown = view(&seen);
    assert_eq!(
        (shown.partitions[0].lag, shown.partitions[0].in_flight),
        (None, None)
    );
    assert_eq!(shown.lag, Lag::AtMost(41 + 20));
    assert_eq!((shown.total_lag, shown.total_lag_source), (None, "at_most"));
    assert_eq!(shown.member_rows[0].state, MemberWord::Silent);
    assert_eq!(seen.uncounted(), [Partition(0)]);
    seen.stored.insert(Partition(0), 12);
    assert_eq!(view(&seen).lag, Lag::AtMost(12 + 20));
}

#[test]
fn a_claim_on_record_is_not_silence_before_the_owners_next_heartbeat() {
    let mut seen = healthy();
    seen.members
        .get_mut(&inc("a1"))
        .unwrap()
        .document
        .held
        .clear();
    assert_eq!(
        words(&seen).1,
        [PartitionWord::Feeding, PartitionWord::Feeding]
    );
    seen.meta.pause.all = true;
    assert_eq!(
        words(&seen).1,
        [PartitionWord::Paused, PartitionWord::Paused]
    );
}

#[test]
fn a_report_of_another_epoch_is_not_about_this_grant() {
    let mut seen = healthy();
    document(&mut seen).partitions[0].epoch = Epoch(13);
    assert_eq!(
        words(&seen),
        (
            GroupWord::Rebalancing,
            vec![PartitionWord::Claiming, PartitionWord::Feeding]
        )
    );
    assert_eq!(view(&seen).partitions[0].in_flight, None);
}

#[test]
fn lag_that_nobody_knows_is_null_and_never_zero() {
    let mut seen = healthy();
    seen.streams.clear();
    seen.members.clear();
    let view = view(&seen);
    assert_eq!((view.total_lag, view.total_lag_source), (None, "unknown"));
    assert_eq!(
        (view.partitions[0].lag, view.partitions[0].end),
        (None, None)
    );
    assert_eq!(view.lag.to_string(), "unknown");
}

#[test]
fn sequences_of_a_stream_that_was_made_anew_bound_nothing() {
    let mut seen = healthy();
    seen.members.clear();
    seen.streams.get_mut("ORDERS").unwrap().created = ServerTime(6);
    assert_eq!(view(&seen).lag, Lag::Unknown);
}

#[test]
fn a_lost_or_damaged_commit_record_is_named_and_the_others_run() {
    let mut seen = healthy();
    seen.offsets
        .insert(Partition(0), Found::Damaged("format 9 is not known".into()));
    assert_eq!(
        words(&seen),
        (
            GroupWord::OffsetLost,
            vec![PartitionWord::OffsetLost, PartitionWord::Feeding]
        )
    );
    let problems = view(&seen).problems;
    assert_eq!(
        problems,
        ["the commit record of partition 0 is damaged: format 9 is not known"]
    );
    seen.offsets.remove(&Partition(0));
    assert_eq!(
        view(&seen).problems,
        ["the commit record of partition 0 is lost"]
    );
}

#[test]
fn before_the_group_is_seeded_an_absent_record_is_no_damage() {
    let mut seen = healthy();
    document(&mut seen).seeded = false;
    seen.offsets.clear();
    assert_eq!(
        words(&seen),
        (GroupWord::Provisioning, vec![PartitionWord::Seeding; 2])
    );
    assert!(view(&seen).problems.is_empty());
    seen.document = Found::Absent;
    assert_eq!(
        words(&seen),
        (GroupWord::NoCoordinator, vec![PartitionWord::Seeding; 2])
    );
}

#[test]
fn a_damaged_assignment_leaves_positions_readable_and_owners_unknown() {
    let mut seen = healthy();
    seen.document = Found::Damaged("not JSON".into());
    assert_eq!(
        words(&seen),
        (GroupWord::Damaged, vec![PartitionWord::Unknown; 2])
    );
    let view = view(&seen);
    assert_eq!(
        view.problems,
        ["the assignment document (key group) is damaged: not JSON"]
    );
    assert_eq!((view.partitions[0].committed, view.epoch), (Some(60), None));
}

#[test]
fn a_stopped_partition_says_why_until_a_later_resume_lifts_it() {
    let mut seen = healthy();
    let stopped = Stopped {
        seq: Sequence(60),
        reason: StopReason::MessageStuck,
        detail: "5 attempts".into(),
        generation: MetaGeneration(2),
    };
    let record = offset(&mut seen, 0);
    record.stopped = Some(stopped);
    record.head = Some(Head {
        seq: Sequence(60),
        attempts: 5,
        last_error: "declined".into(),
    });
    let shown = view(&seen);
    assert_eq!(shown.state, GroupWord::PartitionsStopped);
    assert_eq!(shown.partitions[0].stopped, Some(StopReason::MessageStuck));
    assert_eq!(shown.partitions[0].attempts, 5);
    assert_eq!(shown.partitions[0].last_error, "declined");
    // A resume of the generation under which it stopped came before.
    seen.meta.resumed.insert(Partition(0), MetaGeneration(2));
    assert_eq!(words(&seen).1[0], PartitionWord::Stopped);
    seen.meta.resumed.insert(Partition(0), MetaGeneration(3));
    assert_eq!(words(&seen).1[0], PartitionWord::Feeding);
}

#[test]
fn pause_revocation_and_absence_of_an_owner_have_words() {
    let mut seen = healthy();
    seen.meta.pause.partitions = BTreeSet::from([Partition(0)]);
    document(&mut seen).partitions[1].target = Some(inc("a1"));
    assert_eq!(
        words(&seen),
        (
            GroupWord::Rebalancing,
            vec![PartitionWord::Paused, PartitionWord::Revoking]
        )
    );
    document(&mut seen).partitions[1] = Assignment::default();
    assert_eq!(
        words(&seen),
        (
            GroupWord::PartitionsUnassigned,
            vec![PartitionWord::Paused, PartitionWord::Unassigned]
        )
    );
    let mut all = healthy();
    all.meta.pause.all = true;
    assert_eq!(
        words(&all),
        (GroupWord::Paused, vec![PartitionWord::Paused; 2])
    );
    all.meta.state = GroupState::Deleted;
    assert_eq!(words(&all).0, GroupWord::Deleted);
}

#[test]
fn without_active_members_the_word_is_no_members() {
    let mut seen = healthy();
    let document = document(&mut seen);
    document.members.remove(&inc("a1"));
    let standby = Standing::Standby(StandbyReason::NoApplication);
    document.members.insert(inc("b1"), entry("pod-b", standby));
    document.partitions = vec![Assignment::default(); 2];
    let view = view(&seen);
    assert_eq!(
        (view.state, view.members, view.standby),
        (GroupWord::NoMembers, 1, 1)
    );
    let rows: Vec<_> = view
        .member_rows
        .iter()
        .map(|m| (m.id.as_str(), m.state))
        .collect();
    assert_eq!(
        rows,
        [
            ("pod-a", MemberWord::Joining),
            ("pod-b", MemberWord::Standby)
        ]
    );
    assert_eq!(
        view.member_rows[1].reason.as_deref(),
        Some("AppNotConnected")
    );
}

#[test]
fn members_show_what_they_own_and_who_is_gone_is_not_shown() {
    let mut seen = healthy();
    let gone = Heard {
        document: MemberDocument {
            state: MemberState::Left,
            ..heartbeat("pod-x", vec![])
        },
        at: NOW,
    };
    seen.members.insert(inc("x1"), gone);
    let rows = view(&seen).member_rows;
    assert_eq!(rows.len(), 2);
    assert_eq!(
        (rows[0].partitions.as_slice(), rows[0].heard_ms),
        (&[0][..], Some(2000))
    );
    assert_eq!(
        (rows[1].in_flight, rows[1].app_connected),
        (Some(1), Some(true))
    );
}

#[test]
fn a_coordinator_that_stopped_on_purpose_is_not_shown_as_coordinating() {
    let mut seen = healthy();
    seen.candidates.get_mut(&inc("c1")).unwrap().document.left = true;
    let shown = view(&seen);
    assert_eq!(
        (shown.coordinator, shown.coordinator_heard_ms),
        (None, None)
    );
    // One whose own key has run out is still the holder by the document.
    seen.candidates.clear();
    assert_eq!(view(&seen).coordinator.as_deref(), Some("c1"));
}
