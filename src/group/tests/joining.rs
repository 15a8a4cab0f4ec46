//! Joining, delays, eligibility, standby.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use super::scene::{STEP, Scene};
use crate::group::decide::{Aspect, Trouble};
use crate::group::{App, AssignorSetting, Formats, GroupState, Partition, StandbyReason, Standing};

// P56
#[test]
fn the_first_members_are_waited_for() {
    // P61: the delay begins anew with each joiner, and is at most five times as long.
    let mut t = Scene::with_partitions(6);
    t.starts("a");
    t.passes(Duration::from_secs(2));
    assert!(!t.document().has_owners());
    t.starts("b");
    t.passes(Duration::from_millis(2500));
    assert!(!t.document().has_owners());
    t.passes(Duration::from_secs(1));
    assert_eq!((t.owned_by("a").len(), t.owned_by("b").len()), (3, 3));
}

#[test]
fn the_first_assignment_waits_at_most_five_delays() {
    // P61
    let mut t = Scene::with_partitions(32);
    let wait = t.time_until_owned_with_a_joiner_every(Duration::from_secs(2));
    assert!((14..=16).contains(&wait.as_secs()), "{wait:?}");
}

#[test]
fn the_first_assignment_waits_no_longer_than_for_the_declared_members() {
    let mut t = Scene::with_partitions(6);
    t.coordinators
        .get_mut("c1")
        .unwrap()
        .seen
        .declare_replicas(Some(2));
    t.starts("a");
    t.passes(STEP * 2);
    assert!(!t.document().has_owners());
    t.starts("b");
    t.passes(STEP * 2);
    assert_eq!((t.owned_by("a").len(), t.owned_by("b").len()), (3, 3));
}

#[test]
fn an_emptied_group_waits_again() {
    // P61
    let mut t = Scene::with_partitions(2);
    t.joins("a");
    t.leaves("a");
    t.starts("b");
    t.passes(Duration::from_secs(2));
    assert!(!t.document().has_owners());
    t.passes(Duration::from_secs(2));
    assert_eq!(t.owned_by("b"), [0, 1]);
}

#[test]
fn who_joins_while_everybody_leaves_is_not_waited_for() {
    // P61
    let mut t = Scene::with_partitions(6);
    t.joins("a");
    t.joins("b");
    t.until(|t| t.owned_by("b").len() == 3);
    t.ask_to_leave(&["a", "b"]);
    t.starts("c");
    t.passes(STEP * 2);
    assert_eq!(t.targeted_at("c").len(), 6);
    t.until(|t| t.owned_by("c").len() == 6);
}

#[test]
fn members_that_join_together_cause_one_target() {
    // P60: a second after the last joiner, at most five after the first.
    let mut t = Scene::with_partitions(12);
    t.joins("a");
    t.starts("b");
    t.passes(STEP * 3);
    assert_eq!(t.targeted_at("b"), [0; 0]);
    t.starts("c");
    t.passes(STEP * 3);
    assert_eq!(t.targeted_at("b"), [0; 0]);
    t.passes(STEP * 2);
    let wanted = ["a", "b", "c"].map(|m| t.targeted_at(m).len());
    assert_eq!(wanted, [4, 4, 4]);
}

#[test]
fn the_first_joiner_waits_at_most_five_seconds_for_others() {
    // P60
    let mut t = Scene::with_partitions(32);
    t.joins("a");
    t.starts("b0");
    let start = t.now;
    for n in 1..20 {
        t.passes(STEP * 3);
        t.starts(&format!("b{n}"));
        if !t.targeted_at("b0").is_empty() {
            break;
        }
    }
    let wait = t.now.since(start).as_millis();
    assert!((4750..=5750).contains(&wait), "{wait}");
}

#[test]
fn what_nobody_owns_is_granted_at_once_to_everybody_who_may_have_it() {
    // P59: without waiting for the joiner's delay, and with it.
    let mut t = Scene::with_partitions(6);
    t.starts("a");
    t.starts("b");
    t.until(|t| t.owned_by("b").len() == 3);
    t.starts("c");
    t.leaves("a");
    let total: usize = ["b", "c"].map(|m| t.owned_by(m).len()).iter().sum();
    assert_eq!(total, 6, "{:?}", t.document());
    assert!(!t.owned_by("c").is_empty());
}

#[test]
fn moves_for_balance_alone_are_apart() {
    // P62
    let mut t = Scene::with_partitions(12);
    t.joins("a");
    t.joins("b");
    t.everybody_lets_go();
    let wait = t.now;
    t.starts("c");
    t.until(|t| !t.targeted_at("c").is_empty());
    let wait = t.now.since(wait);
    assert!((7..=10).contains(&wait.as_secs()), "{wait:?}");
    assert_eq!(t.targeted_at("c").len(), 4);
}

#[test]
fn need_does_not_wait_for_balance() {
    // P62 P59
    let mut t = Scene::with_partitions(12);
    t.joins("a");
    t.joins("b");
    t.everybody_lets_go();
    t.starts("c");
    t.leaves("a"); // within ten seconds of the last move
    let free = t
        .document()
        .partitions
        .iter()
        .filter(|p| p.owner.is_none())
        .count();
    assert_eq!(free, 0);
    let kept: BTreeSet<u32> = t.owned_by("b").into_iter().collect();
    assert!(
        t.targeted_at("b").iter().all(|p| kept.contains(p)),
        "b loses nothing yet"
    );
    t.until(|t| t.targeted_at("c").len() == 6);
}

#[test]
fn a_member_without_an_application_stands_by_until_it_connects() {
    // P57
    let mut t = Scene::with_partitions(2);
    t.starts("a").without_application();
    t.passes(Duration::from_secs(10));
    assert!(t.stands_by("a", StandbyReason::NoApplication));
    assert_eq!(
        t.trouble(Aspect::PartitionsAssigned),
        Some(Trouble::NoEligibleMember)
    );
    assert_eq!(
        t.trouble(Aspect::PartitionsProgressing),
        Some(Trouble::AppNotConnected)
    );
    t.says("a", |says| says.app.connected = true);
    t.until(|t| t.owned_by("a") == [0, 1]);
}

#[test]
fn an_application_may_be_away_for_a_session_timeout() {
    // P57 P58
    let mut t = Scene::with_partitions(2);
    t.starts("a");
    t.starts("b");
    t.until(|t| t.owned_by("b").len() == 1);
    let away = |since| App {
        connected: false,
        seen: true,
        since_ms: since,
    };
    t.says("a", |says| says.app = away(19_000));
    assert_eq!(t.standing("a"), Some(Standing::Active));
    t.says("a", |says| says.app = away(21_000));
    assert!(t.stands_by("a", StandbyReason::NoApplication));
    assert_eq!(t.targeted_at("b"), [0, 1]);
    // P58: nobody else is left, so b keeps what it has.
    let kept = t.owned_by("b");
    t.says("b", |says| says.app = away(21_000));
    t.passes(Duration::from_secs(30));
    assert_eq!(t.owned_by("b"), kept);
    assert_eq!(
        t.trouble(Aspect::PartitionsAssigned),
        Some(Trouble::NoEligibleMember)
    );
}

#[test]
fn a_member_that_reads_too_little_is_named_and_owns_nothing() {
    // P131
    let mut t = Scene::with_partitions(2);
    t.starts("old").says.formats = Formats {
        group: 0,
        ..Formats::CURRENT
    };
    t.passes(Duration::from_secs(10));
    assert!(t.stands_by("old", StandbyReason::VersionTooOld));
    assert_eq!(
        t.trouble(Aspect::PartitionsAssigned),
        Some(Trouble::VersionTooOld)
    );
    t.joins("new");
    assert_eq!(t.owned_by("new"), [0, 1]);
}

#[test]
fn the_newest_wait_when_there_are_more_members_than_places() {
    // P64
    let mut t = Scene::with_partitions(2);
    t.joins("a");
    t.joins("b");
    t.everybody_lets_go();
    t.starts("c");
    t.passes(STEP * 2);
    t.starts("d");
    t.passes(Duration::from_secs(30));
    assert!(t.stands_by("c", StandbyReason::Surplus));
    assert!(t.stands_by("d", StandbyReason::Surplus));
    t.leaves("a");
    t.until(|t| t.owned_by("c").len() == 1);
    assert!(
        t.stands_by("d", StandbyReason::Surplus),
        "c was there before d"
    );
}

#[test]
fn max_members_is_kept() {
    // P64
    let mut t = Scene::with_partitions(4);
    t.set(|meta| meta.membership.max_members = 1);
    t.joins("a");
    t.starts("b");
    t.passes(Duration::from_secs(30));
    assert!(t.stands_by("b", StandbyReason::Surplus));
    assert_eq!(t.owned_by("a"), [0, 1, 2, 3]);
    t.set(|meta| meta.membership.max_members = 64);
    t.until(|t| t.targeted_at("b").len() == 2);
}

#[test]
fn who_died_twice_gets_partitions_only_by_need() {
    // P63
    let mut t = Scene::with_partitions(4);
    t.joins("steady");
    for life in 1..=2 {
        let name = format!("flappy{life}");
        t.starts_as(&name, "flappy");
        t.until(|t| t.standing(&name) == Some(Standing::Active));
        t.everybody_lets_go();
        assert_eq!(t.owned_by(&name).len(), 2);
        t.falls_silent(&name);
        t.until(|t| t.standing(&name).is_none());
    }
    t.starts_as("flappy3", "flappy");
    t.passes(Duration::from_secs(60));
    t.everybody_lets_go();
    assert_eq!(t.standing("flappy3"), Some(Standing::Active));
    assert_eq!(t.owned_by("flappy3"), [0; 0]);
    // There is nobody else: it gets everything.
    t.leaves("steady");
    assert_eq!(t.owned_by("flappy3"), [0, 1, 2, 3]);
    t.joins("calm");
    t.everybody_lets_go();
    assert_eq!(t.owned_by("flappy3"), [0; 0]);
    t.passes(Duration::from_secs(300));
    t.everybody_lets_go();
    assert_eq!(t.owned_by("flappy3").len(), 2, "five minutes have passed");
}

#[test]
fn an_id_that_returns_gets_its_own_partitions_back() {
    // P55
    let mut t = Scene::with_partitions(9);
    for id in ["a", "b", "c"] {
        t.starts(id);
    }
    t.until(|t| t.owned_by("c").len() == 3);
    let had = t.owned_by("b");
    t.leaves("b");
    t.passes(Duration::from_secs(20));
    t.starts_as("b2", "b");
    t.until(|t| t.targeted_at("b2").len() == 3);
    assert_eq!(t.targeted_at("b2"), had);
}

#[test]
fn the_target_is_computed_when_its_inputs_change_and_not_otherwise() {
    // P65
    let mut t = Scene::with_partitions(4);
    t.joins("a");
    let hash = t.document().input_hash;
    t.set(|meta| meta.pause.all = true);
    t.passes(Duration::from_secs(5));
    assert_eq!(t.document().input_hash, hash);
    t.set(|meta| {
        let map = BTreeMap::from([("a".to_owned(), BTreeSet::from([Partition(0)]))]);
        meta.membership.assignor = AssignorSetting::Manual { map };
    });
    t.passes(Duration::from_secs(5));
    assert_ne!(t.document().input_hash, hash);
}

#[test]
fn a_deleted_group_has_no_owners_and_revives() {
    // P130
    let mut t = Scene::with_partitions(2);
    t.joins("a");
    t.set(|meta| meta.state = GroupState::Deleted);
    t.everybody_lets_go();
    assert!(!t.document().has_owners());
    assert!(t.stands_by("a", StandbyReason::GroupDeleted));
    t.set(|meta| meta.state = GroupState::Active);
    t.until(|t| t.owned_by("a") == [0, 1]);
}

#[test]
fn a_settled_group_writes_nothing() {
    // P67
    let mut t = Scene::with_partitions(5);
    t.joins("a");
    t.joins("b");
    t.everybody_lets_go();
    t.passes(Duration::from_secs(30));
    let editions = t.history.len();
    t.passes(Duration::from_secs(900));
    assert_eq!(t.history.len(), editions, "{:#?}", t.history.last());
}

impl Scene {
    fn time_until_owned_with_a_joiner_every(&mut self, interval: Duration) -> Duration {
        let start = self.now;
        for n in 0..30 {
            self.starts(&format!("m{n}"));
            let end = self.now.after(interval);
            while self.now < end {
                self.step();
                if self.document().has_owners() {
                    return self.now.since(start);
                }
            }
        }
        panic!("nothing is granted");
    }
}

#[test]
fn who_is_asked_to_leave_gives_everything_to_the_others() {
    // P57a
    let mut t = Scene::with_partitions(6);
    t.joins("a");
    t.joins("b");
    t.until(|t| t.owned_by("b").len() == 3);
    t.ask_to_leave(&["b"]);
    t.until(|t| t.owned_by("a").len() == 6);
    let standing = t.document().members.values().find(|m| m.id.as_str() == "b");
    assert_eq!(standing.map(|m| m.standing), Some(Standing::Draining));
    // It is still there, and a joiner when it is no longer asked.
    t.ask_to_leave(&[]);
    t.until(|t| t.owned_by("b").len() == 3);
}

#[test]
fn asking_everybody_to_leave_changes_nothing() {
    // P57a
    let mut t = Scene::with_partitions(6);
    t.joins("a");
    t.joins("b");
    let before = t.document().clone();
    t.ask_to_leave(&["a", "b"]);
    t.passes(Duration::from_secs(30));
    assert_eq!(*t.document(), before);
}

#[test]
fn who_joins_while_it_is_asked_to_leave_gets_nothing() {
    // P57a
    let mut t = Scene::with_partitions(6);
    t.joins("a");
    t.ask_to_leave(&["b"]);
    t.starts("b");
    t.passes(Duration::from_secs(30));
    assert_eq!((t.owned_by("a").len(), t.owned_by("b").len()), (6, 0));
}
