//! Invariants under arbitrary histories.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use proptest::prelude::*;

use super::scene::Scene;
use crate::group::decide::{OffsetFact, Reason};
use crate::group::{
    Epoch, GroupDocument, Incarnation, MemberState, Partition, StandbyReason, Standing,
};

/// Members come and go, coordinators, too; whatever happens, happens in some order.
#[derive(Clone, Debug)]
enum Event {
    Starts(u8),
    FallsSilent(u8),
    SpeaksAgain(u8),
    Drains(u8),
    Leaves(u8),
    LosesItsApplication(u8),
    HasItsApplication(u8),
    Releases { member: u8, which: u8, clean: bool },
    AllLetGo,
    SecondsPass(u8),
    CoordinatorCrashes,
    CoordinatorStepsDown,
    CoordinatorIsCutOff,
    EverybodyIsBack,
    CoordinatorStarts,
    Pauses,
    SetsMaxMembers(u8),
    AsksToLeave(u8),
    IsRolledBack { partition: u8, by: u8 },
}

const PARTITIONS: u32 = 5;

/// Histories per property; a long run sets it higher by hand.
const CASES: u32 = 32;

fn events() -> impl Strategy<Value = Vec<Event>> {
    let who = 0..6_u8;
    let event = prop_oneof![
        4 => who.clone().prop_map(Event::Starts),
        2 => who.clone().prop_map(Event::FallsSilent),
        2 => who.clone().prop_map(Event::SpeaksAgain),
        1 => who.clone().prop_map(Event::Drains),
        2 => who.clone().prop_map(Event::Leaves),
        1 => who.clone().prop_map(Event::LosesItsApplication),
        1 => who.clone().prop_map(Event::HasItsApplication),
        4 => (who, any::<u8>(), any::<bool>())
            .prop_map(|(member, which, clean)| Event::Releases { member, which, clean }),
        3 => Just(Event::AllLetGo),
        8 => (1..40_u8).prop_map(Event::SecondsPass),
        1 => Just(Event::CoordinatorCrashes),
        1 => Just(Event::CoordinatorStepsDown),
        1 => Just(Event::CoordinatorIsCutOff),
        2 => Just(Event::EverybodyIsBack),
        2 => Just(Event::CoordinatorStarts),
        1 => Just(Event::Pauses),
        1 => (1..7_u8).prop_map(Event::SetsMaxMembers),
        2 => (0..64_u8).prop_map(Event::AsksToLeave),
        1 => (any::<u8>(), any::<u8>())
            .prop_map(|(partition, by)| Event::IsRolledBack { partition, by }),
    ];
    proptest::collection::vec(event, 1..30)
}

/// Plays a history.
fn play(events: &[Event]) -> Scene {
    let mut t = Scene::with_partitions(PARTITIONS);
    let mut lives = 0;
    for event in events {
        lives += 1;
        happens(&mut t, event, lives);
    }
    t
}

fn happens(t: &mut Scene, event: &Event, life: u32) {
    match event {
        Event::Starts(id) => {
            t.starts_as(&format!("m{id}life{life}"), &format!("m{id}"));
            t.settle();
        }
        Event::FallsSilent(n) => with(t, *n, Scene::falls_silent),
        Event::SpeaksAgain(n) => with(t, *n, |t, name| {
            if t.members[name].says.state != MemberState::Left {
                t.speaks_again(name);
            }
        }),
        Event::Drains(n) => with(t, *n, |t, name| {
            t.says(name, |says| says.state = MemberState::Draining);
        }),
        Event::Leaves(n) => with(t, *n, Scene::leaves),
        Event::LosesItsApplication(n) => with(t, *n, |t, name| {
            t.says(name, |says| {
                says.app.connected = false;
                says.app.since_ms = 60_000;
            });
        }),
        Event::HasItsApplication(n) => with(t, *n, |t, name| {
            t.says(name, |says| says.app.connected = true);
        }),
        Event::Releases {
            member,
            which,
            clean,
        } => with(t, *member, |t, name| releases_one(t, name, *which, *clean)),
        Event::AllLetGo => t.everybody_lets_go(),
        Event::SecondsPass(n) => t.passes_quickly(Duration::from_secs(u64::from(*n))),
        Event::CoordinatorCrashes => with_coordinator(t, Scene::crashes),
        Event::CoordinatorStepsDown => with_coordinator(t, Scene::steps_down),
        Event::CoordinatorIsCutOff => with_coordinator(t, Scene::is_cut_off),
        Event::EverybodyIsBack => {
            everybody_is_back(t);
        }
        Event::CoordinatorStarts => t.coordinator(&format!("d{life}"), 0),
        Event::Pauses => t.set(|meta| meta.pause.all = !meta.pause.all),
        Event::SetsMaxMembers(n) => t.set(|meta| meta.membership.max_members = u32::from(*n)),
        Event::AsksToLeave(which) => are_asked_to_leave(t, *which),
        Event::IsRolledBack { partition, by } => {
            let partition = Partition(u32::from(*partition) % PARTITIONS);
            let granted = t.document().assignment(partition).unwrap().epoch;
            let epoch = Epoch(granted.0 + u64::from(*by));
            t.offsets.insert(
                partition,
                OffsetFact::Present {
                    epoch,
                    stopped: None,
                },
            );
        }
    }
}

fn releases_one(t: &mut Scene, name: &str, which: u8, clean: bool) {
    let owned = t.owned_by(name);
    if !owned.is_empty() && t.members[name].beats {
        let one = owned[usize::from(which) % owned.len()];
        t.releases_as(name, &[one], clean);
    }
}

fn are_asked_to_leave(t: &mut Scene, which: u8) {
    let asked = (0..6).filter(|n| which & (1 << n) != 0);
    let asked: Vec<String> = asked.map(|n| format!("m{n}")).collect();
    t.ask_to_leave(&asked.iter().map(String::as_str).collect::<Vec<_>>());
    t.settle();
}

fn with(t: &mut Scene, n: u8, what: impl FnOnce(&mut Scene, &str)) {
    if !t.members.is_empty() {
        let at = usize::from(n) * 7 % t.members.len();
        let name = t.members.keys().nth(at).unwrap().clone();
        what(t, &name);
    }
}

fn with_coordinator(t: &mut Scene, what: impl FnOnce(&mut Scene, &str)) {
    if let Some(name) = t.holder().map(str::to_owned) {
        what(t, &name);
    }
}

/// The grants of a history, each once: (partition, epoch) and its owner.
fn grants(history: &[GroupDocument]) -> impl Iterator<Item = ((Partition, Epoch), &Incarnation)> {
    history
        .iter()
        .flat_map(|document| Partition::all(PARTITIONS).zip(&document.partitions))
        .filter_map(|(p, a)| a.owner.as_ref().map(|owner| ((p, a.epoch), owner)))
}

fn everybody_is_back(t: &mut Scene) {
    let all = t.coordinators.iter();
    let away = all
        .filter(|(_, c)| !c.connected)
        .map(|(name, _)| name.clone());
    for name in away.collect::<Vec<_>>() {
        t.is_back(&name);
    }
}

/// Brings everybody back and waits until nothing moves any more.
fn calms_down(t: &mut Scene) {
    everybody_is_back(t);
    t.ask_to_leave(&[]); // a coordinator that starts later does not know of it
    if t.coordinators.values().all(|c| !c.runs) {
        t.coordinator("last", 0);
    }
    for _ in 0..2 {
        t.everybody_lets_go();
        t.passes_quickly(Duration::from_secs(330)); // all timers, and those of members that flap
    }
    t.everybody_lets_go();
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: CASES,
        failure_persistence: Some(Box::new(
            proptest::test_runner::FileFailurePersistence::WithSource("regressions"),
        )),
        ..ProptestConfig::default()
    })]

    #[test]
    fn an_epoch_of_a_partition_has_one_owner_for_ever(events in events()) {
        // P69
        let t = play(&events);
        let mut owner_of = BTreeMap::new();
        for (grant, owner) in grants(&t.history) {
            prop_assert_eq!(owner_of.entry(grant).or_insert(owner), &owner, "{:?}", grant);
        }
    }

    #[test]
    fn epochs_never_fall(events in events()) {
        // P67 P68
        let t = play(&events);
        for pair in t.history.windows(2) {
            let (old, new) = (&pair[0], &pair[1]);
            prop_assert!(old.term <= new.term);
            prop_assert!(old.epoch <= new.epoch);
            for (was, is) in old.partitions.iter().zip(&new.partitions) {
                prop_assert!(was.epoch <= is.epoch, "{was:?} -> {is:?}");
            }
        }
    }

    #[test]
    fn every_grant_raises_the_epoch_and_nothing_else_does(events in events()) {
        // P68
        let t = play(&events);
        for pair in t.history.windows(2) {
            let ends = pair[0].partitions.iter().zip(&pair[1].partitions);
            for (was, is) in ends {
                let granted = is.owner.is_some() && is.owner != was.owner;
                let again = is.owner.is_some() && is.epoch != was.epoch;
                if granted || again {
                    prop_assert!(is.epoch > was.epoch, "{was:?} -> {is:?}");
                } else if is.epoch != was.epoch {
                    prop_assert!(rolled_back(&events), "{was:?} -> {is:?}");
                }
            }
        }
    }

    #[test]
    fn a_partition_changes_hands_only_by_release_death_or_timeout(events in events()) {
        // P76
        let t = play(&events);
        for pair in t.history.windows(2) {
            for (partition, (was, is)) in Partition::all(PARTITIONS)
                .zip(pair[0].partitions.iter().zip(&pair[1].partitions))
            {
                let Some(owner) = was.owner.as_ref().filter(|o| is.owner.as_ref() != Some(*o)) else {
                    continue;
                };
                let gone = !pair[1].members.contains_key(owner);
                let replaced = pair[1].members.get(owner).is_some_and(|e| {
                    e.standing == Standing::Standby(StandbyReason::Replaced)
                });
                let named = t.reasons.iter().any(|r| names_the_end(r, partition, was.epoch));
                prop_assert!(gone || replaced || named, "{partition}: {was:?} -> {is:?}");
            }
        }
    }

    #[test]
    fn who_owns_or_should_own_is_in_the_table(events in events()) {
        let t = play(&events);
        for document in &t.history {
            for a in &document.partitions {
                for member in a.owner.iter().chain(&a.target) {
                    prop_assert!(document.members.contains_key(member), "{document:#?}");
                }
            }
        }
    }

    #[test]
    fn a_quiet_group_settles_completely_and_a_settled_one_is_silent(events in events()) {
        // P67 P59
        let mut t = play(&events);
        calms_down(&mut t);
        let document = t.document().clone();
        let editions = t.history.len();
        t.passes_quickly(Duration::from_secs(600));
        prop_assert_eq!(t.history.len(), editions, "{:#?}", t.document());
        let active: BTreeSet<&Incarnation> = document
            .members
            .iter()
            .filter(|(_, e)| e.standing == Standing::Active)
            .map(|(member, _)| member)
            .collect();
        if !active.is_empty() {
            for a in &document.partitions {
                prop_assert!(a.owner.as_ref().is_some_and(|o| active.contains(o)), "{a:?}");
                prop_assert_eq!(&a.owner, &a.target);
            }
            let count = |m: &&Incarnation| document.owned_by(m).count();
            let loads: Vec<usize> = active.iter().map(count).collect();
            let (least, most) = (loads.iter().min().unwrap(), loads.iter().max().unwrap());
            prop_assert!(most - least <= 1, "unbalanced: {loads:?}");
        }
    }

    #[test]
    fn a_restarted_coordinator_decides_the_same(events in events()) {
        // P41: what a stranger makes of a settled group is nothing.
        let mut t = play(&events);
        calms_down(&mut t);
        let running: Vec<String> = t.coordinators.keys().cloned().collect();
        for name in &running {
            t.crashes(name);
        }
        t.coordinator("stranger", 0);
        t.until(|t| t.holder() == Some("stranger"));
        let document = t.document().clone();
        t.passes_quickly(Duration::from_secs(60));
        prop_assert_eq!(t.document(), &document);
    }
}

fn rolled_back(events: &[Event]) -> bool {
    events
        .iter()
        .any(|e| matches!(e, Event::IsRolledBack { .. }))
}

fn names_the_end(reason: &Reason, p: Partition, epoch: Epoch) -> bool {
    *reason == Reason::Released(p, epoch)
        || *reason == Reason::RebalanceTimeout(p, epoch)
        || matches!(reason, Reason::RolledBack(q, _) if *q == p)
}
