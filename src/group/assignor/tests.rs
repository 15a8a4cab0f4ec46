use proptest::prelude::*;

use super::*;
use crate::group::assignor::roster::willing;

fn inc(text: &str) -> Incarnation {
    text.parse().unwrap()
}

fn member(name: &str) -> Candidate {
    Candidate {
        incarnation: inc(&format!("{name}1")),
        id: MemberId::new(name),
        zone: None,
        by_need: false,
    }
}

fn members(names: &[&str]) -> Vec<Candidate> {
    names.iter().map(|n| member(n)).collect()
}

fn zoned(name: &str, zone: &str) -> Candidate {
    Candidate {
        zone: Some(zone.into()),
        ..member(name)
    }
}

fn restarted(name: &str) -> Candidate {
    Candidate {
        incarnation: inc(&format!("{name}2")),
        ..member(name)
    }
}

fn partitions(count: u32) -> Vec<PartitionInput> {
    Partition::all(count)
        .map(|partition| PartitionInput {
            partition,
            zone: None,
        })
        .collect()
}

/// Partition i has its leader in the i-th of these zones.
fn led_from(zones: &[&str]) -> Vec<PartitionInput> {
    let mut partitions = partitions(u32::try_from(zones.len()).unwrap());
    for (p, zone) in partitions.iter_mut().zip(zones) {
        p.zone = Some((*zone).into());
    }
    partitions
}

fn owned(target: &Target, incarnation: &str) -> Vec<u32> {
    let its = target.iter().filter(|(_, m)| m.as_str() == incarnation);
    its.map(|(p, _)| p.0).collect()
}

fn loads(target: &Target, members: &[Candidate]) -> Vec<usize> {
    let load = |m: &Candidate| target.values().filter(|o| **o == m.incarnation).count();
    members.iter().map(load).collect()
}

fn after(target: &Target) -> Previous {
    Previous {
        owners: target.clone(),
        last_ids: BTreeMap::new(),
    }
}

fn moved(from: &Target, to: &Target) -> usize {
    from.iter().filter(|(p, m)| to.get(p) != Some(m)).count()
}

fn all_assignors() -> Vec<Box<dyn Assignor>> {
    let map = BTreeMap::from([("a".to_owned(), BTreeSet::from([Partition(1), Partition(3)]))]);
    let settings = [
        AssignorSetting::Sticky,
        AssignorSetting::Range,
        AssignorSetting::RoundRobin,
        AssignorSetting::Rendezvous,
        AssignorSetting::ZoneAware,
        AssignorSetting::Manual { map },
    ];
    settings.iter().map(of).collect()
}

#[test]
fn sticky_keeps_what_is_there_when_a_member_joins() {
    let first = Sticky.assign(&members(&["a", "b"]), &partitions(12), &Previous::default());
    let three = members(&["a", "b", "c"]);
    let second = Sticky.assign(&three, &partitions(12), &after(&first));
    assert_eq!(loads(&second, &three), [4, 4, 4]);
    assert_eq!(moved(&first, &second), 4);
}

#[test]
fn sticky_moves_only_the_partitions_of_who_left() {
    let all = members(&["a", "b", "c"]);
    let first = Sticky.assign(&all, &partitions(9), &Previous::default());
    let second = Sticky.assign(&all[..2], &partitions(9), &after(&first));
    assert_eq!(moved(&first, &second), 3);
    let mut loads = loads(&second, &all[..2]);
    loads.sort_unstable();
    assert_eq!(loads, [4, 5]);
}

// P55
#[test]
fn a_restarted_id_gets_exactly_its_own_back() {
    let all = members(&["a", "b", "c"]);
    let first = Sticky.assign(&all, &partitions(11), &Previous::default());
    let own = owned(&first, "c1");
    let id = |m: &Incarnation| all.iter().find(|c| c.incarnation == *m).unwrap().id.clone();
    let last_ids = first.iter().map(|(p, m)| (*p, id(m))).collect();
    let now = [member("a"), member("b"), restarted("c")];
    let previous = Previous {
        owners: first.clone(),
        last_ids,
    };
    let second = Sticky.assign(&now, &partitions(11), &previous);
    assert_eq!(owned(&second, "c2"), own);
    assert_eq!(moved(&first, &second), own.len());
}

#[test]
fn an_id_that_was_away_gets_its_own_back_from_those_who_took_them() {
    let all = members(&["a", "b", "c"]);
    let first = Sticky.assign(&all, &partitions(12), &Previous::default());
    let own = owned(&first, "c1");
    let without = Sticky.assign(&all[..2], &partitions(12), &after(&first));
    let last_ids = own
        .iter()
        .map(|p| (Partition(*p), MemberId::new("c")))
        .collect();
    let now = [member("a"), member("b"), restarted("c")];
    let previous = Previous {
        owners: without,
        last_ids,
    };
    let second = Sticky.assign(&now, &partitions(12), &previous);
    assert_eq!(owned(&second, "c2"), own);
}

#[test]
fn of_two_that_could_have_one_more_it_goes_to_the_one_whose_it_was() {
    let last_ids = BTreeMap::from([
        (Partition(0), MemberId::new("b")),
        (Partition(1), MemberId::new("b")),
        (Partition(2), MemberId::new("a")),
    ]);
    let previous = Previous {
        owners: BTreeMap::new(),
        last_ids,
    };
    let target = Sticky.assign(&members(&["a", "b"]), &partitions(3), &previous);
    assert_eq!(
        (owned(&target, "a1"), owned(&target, "b1")),
        (vec![2], vec![0, 1])
    );
}

#[test]
fn range_gives_blocks_and_round_robin_deals() {
    let two = members(&["b", "a"]);
    let range = Range.assign(&two, &partitions(5), &Previous::default());
    assert_eq!(
        (owned(&range, "a1"), owned(&range, "b1")),
        (vec![0, 1, 2], vec![3, 4])
    );
    let dealt = RoundRobin.assign(&two, &partitions(5), &Previous::default());
    assert_eq!(
        (owned(&dealt, "a1"), owned(&dealt, "b1")),
        (vec![0, 2, 4], vec![1, 3])
    );
}

#[test]
fn rendezvous_depends_on_ids_alone() {
    let first = Rendezvous.assign(
        &members(&["a", "b", "c"]),
        &partitions(60),
        &Previous::default(),
    );
    let now = [member("a"), restarted("b"), member("c")];
    let second = Rendezvous.assign(&now, &partitions(60), &Previous::default());
    assert_eq!(owned(&first, "b1"), owned(&second, "b2"));
    assert_eq!(owned(&first, "a1"), owned(&second, "a1"));
}

#[test]
fn rendezvous_moves_few_partitions_when_a_member_joins() {
    let names: Vec<String> = (0..11).map(|n| format!("m{n}")).collect();
    let all: Vec<Candidate> = names.iter().map(|n| member(n)).collect();
    let first = Rendezvous.assign(&all[..10], &partitions(1000), &Previous::default());
    let second = Rendezvous.assign(&all, &partitions(1000), &Previous::default());
    let moved = moved(&first, &second);
    // A fair share is 91; the bound makes some others move as well. Dealing in turn moves 900.
    assert!((80..250).contains(&moved), "{moved} moved");
}

// P66
#[test]
fn zone_aware_gives_each_zone_its_leaders_where_balance_allows() {
    let zones = ["x", "y", "x", "y", "x", "x"];
    let two = [zoned("a", "x"), zoned("b", "y")];
    let target = ZoneAware.assign(&two, &led_from(&zones), &Previous::default());
    let (a, b) = (owned(&target, "a1"), owned(&target, "b1"));
    assert_eq!(b.len(), 3);
    assert!(b.contains(&1) && b.contains(&3), "b has {b:?}, a has {a:?}");
}

#[test]
fn zone_aware_lets_go_first_of_what_the_newcomer_is_near_to() {
    let zones = ["x", "y", "y", "x", "y", "x"];
    let alone = ZoneAware.assign(&[zoned("a", "x")], &led_from(&zones), &Previous::default());
    let two = [zoned("a", "x"), zoned("b", "y")];
    let target = ZoneAware.assign(&two, &led_from(&zones), &after(&alone));
    assert_eq!(owned(&target, "b1"), [1, 2, 4]);
    // A leader that moves, moves no partition.
    let moved_on = led_from(&["y", "x", "x", "y", "x", "y"]);
    assert_eq!(ZoneAware.assign(&two, &moved_on, &after(&target)), target);
}

#[test]
fn zone_aware_keeps_what_is_at_home_when_nobody_wishes_for_the_rest() {
    let mut four = led_from(&["x", "y", "x", "y"]);
    four[3].zone = None;
    let alone = ZoneAware.assign(&[zoned("a", "x")], &four, &Previous::default());
    let two = [zoned("a", "x"), member("b")];
    let target = ZoneAware.assign(&two, &four, &after(&alone));
    assert_eq!(owned(&target, "a1"), [0, 2]);
}

#[test]
fn zone_aware_gives_the_larger_share_to_the_zone_with_more_leaders() {
    let two = [zoned("a", "x"), zoned("b", "y")];
    let target = ZoneAware.assign(&two, &led_from(&["y", "y", "x"]), &Previous::default());
    assert_eq!(owned(&target, "b1"), [0, 1]);
}

// P66
#[test]
fn manual_follows_its_map_and_the_absent_fall_to_sticky() {
    let p = |numbers: &[u32]| {
        numbers
            .iter()
            .map(|n| Partition(*n))
            .collect::<BTreeSet<_>>()
    };
    let map = [
        ("a", p(&[5, 1])),
        ("b", p(&[0, 5])),
        ("gone", p(&[2, 3])),
        ("idle", p(&[])),
    ];
    let manual = Manual::new(map.map(|(id, p)| (id.to_owned(), p)).into());
    let two = members(&["a", "b"]);
    let target = manual.assign(&two, &partitions(6), &Previous::default());
    let (a, b) = (owned(&target, "a1"), owned(&target, "b1"));
    assert!(a.contains(&1) && a.contains(&5), "{a:?}");
    assert!(b.contains(&0), "{b:?}");
    assert_eq!(a.len() + b.len(), 6);
    assert_eq!(manual.absent(&two), ["gone"]);
}

// P63
#[test]
fn who_keeps_dying_gets_partitions_only_when_there_is_nobody_else() {
    let flapping = Candidate {
        by_need: true,
        ..member("a")
    };
    for assignor in all_assignors() {
        let both = [flapping.clone(), member("b")];
        let target = assignor.assign(&both, &partitions(4), &Previous::default());
        assert_eq!(loads(&target, &both), [0, 4], "{}", assignor.name());
        let alone = [flapping.clone()];
        let target = assignor.assign(&alone, &partitions(4), &Previous::default());
        assert_eq!(loads(&target, &alone), [4], "{}", assignor.name());
    }
}

/// Gives everything to somebody who is not there, but for partition 0, and a partition too many.
#[derive(Debug)]
struct Wrong;

impl Assignor for Wrong {
    fn name(&self) -> &'static str {
        "Wrong"
    }

    fn assign(&self, m: &[Candidate], p: &[PartitionInput], _: &Previous) -> Target {
        let mut target: Target = p.iter().map(|p| (p.partition, inc("nobody"))).collect();
        target.insert(Partition(0), m[0].incarnation.clone());
        target.insert(Partition(99), m[0].incarnation.clone());
        target
    }
}

#[test]
fn a_target_that_breaks_the_rules_is_mended() {
    let two = members(&["a", "b"]);
    let target = target(&Wrong, &two, &partitions(4), &Previous::default());
    assert_eq!(target.keys().map(|p| p.0).collect::<Vec<_>>(), [0, 1, 2, 3]);
    assert_eq!(target[&Partition(0)], inc("a1"));
    assert!(
        target
            .values()
            .all(|m| two.iter().any(|c| c.incarnation == *m))
    );
}

/// A world for properties: members (some by need, with zones), partitions, an arbitrary past.
fn worlds(most: usize) -> impl Strategy<Value = (Vec<Candidate>, Vec<PartitionInput>, Previous)> {
    let zone = || prop::option::of(prop::sample::select(vec!["x", "y", "z"]));
    let people = prop::collection::vec((zone(), prop::bool::weighted(0.1)), 0..most);
    let places = prop::collection::vec((zone(), 0..most + 2, 0..most + 2), 0..most * 2);
    (people, places).prop_map(|(people, places)| {
        let name = |n: usize| format!("m{n}");
        let candidate = |(n, (zone, by_need)): (usize, &(Option<&str>, bool))| Candidate {
            zone: zone.map(Into::into),
            by_need: *by_need,
            ..member(&name(n))
        };
        let candidates = people.iter().enumerate().map(candidate).collect();
        let (mut inputs, mut previous) = (Vec::new(), Previous::default());
        for (partition, (zone, owner, last)) in Partition::all(u32::MAX).zip(places) {
            inputs.push(PartitionInput {
                partition,
                zone: zone.map(Into::into),
            });
            if owner > 0 {
                previous
                    .owners
                    .insert(partition, member(&name(owner - 1)).incarnation);
            }
            if last > 0 {
                previous
                    .last_ids
                    .insert(partition, MemberId::new(name(last - 1)));
            }
        }
        (candidates, inputs, previous)
    })
}

/// The most partitions that any balanced target leaves with their owners: every way to share
/// them out is tried.
fn most_that_can_stay(members: &[Candidate], partitions: usize, previous: &Previous) -> usize {
    fn search(load: &mut Vec<usize>, owner: &[Option<usize>], stay: usize, best: &mut usize) {
        let Some((first, rest)) = owner.split_first() else {
            let (least, most) = (load.iter().min().unwrap(), load.iter().max().unwrap());
            if most - least <= 1 {
                *best = (*best).max(stay);
            }
            return;
        };
        for m in 0..load.len() {
            load[m] += 1;
            search(load, rest, stay + usize::from(*first == Some(m)), best);
            load[m] -= 1;
        }
    }
    let all = Partition::all(u32::try_from(partitions).unwrap());
    let owner: Vec<Option<usize>> = all
        .map(|p| {
            members
                .iter()
                .position(|m| Some(&m.incarnation) == previous.owners.get(&p))
        })
        .collect();
    let mut best = 0;
    search(&mut vec![0; members.len()], &owner, 0, &mut best);
    best
}

proptest! {
    #![proptest_config(ProptestConfig {
        failure_persistence: Some(Box::new(
            proptest::test_runner::FileFailurePersistence::WithSource("regressions"),
        )),
        ..ProptestConfig::default()
    })]

    // P66
    #[test]
    fn every_partition_has_one_of_the_members((members, inputs, previous) in worlds(12)) {
        for assignor in all_assignors() {
            let target = assignor.assign(&members, &inputs, &previous);
            let expected = if members.is_empty() { 0 } else { inputs.len() };
            prop_assert_eq!(target.len(), expected, "{}", assignor.name());
            let willing = willing(&members);
            let known = |m: &Incarnation| willing.iter().any(|c| c.incarnation == *m);
            prop_assert!(target.values().all(known), "{}", assignor.name());
            prop_assert!(target.keys().all(|p| p.index() < inputs.len()));
        }
    }

    // P66
    #[test]
    fn loads_differ_by_one_at_most_where_that_is_promised((members, inputs, previous) in worlds(12)) {
        prop_assume!(!members.is_empty());
        let balanced: [&dyn Assignor; 4] = [&Sticky, &Range, &RoundRobin, &ZoneAware];
        let willing = willing(&members);
        for assignor in balanced {
            let loads = loads(&assignor.assign(&members, &inputs, &previous), &willing);
            let (least, most) = (loads.iter().min().unwrap(), loads.iter().max().unwrap());
            prop_assert!(most - least <= 1, "{}: {:?}", assignor.name(), loads);
            let idle = loads.iter().filter(|load| **load == 0).count();
            prop_assert_eq!(idle, willing.len().saturating_sub(inputs.len()));
        }
        let loads = loads(&Rendezvous.assign(&members, &inputs, &previous), &willing);
        let bound = Rendezvous::bound(inputs.len(), willing.len());
        prop_assert!(loads.iter().all(|load| *load <= bound), "{:?} above {}", loads, bound);
    }

    #[test]
    fn the_order_of_the_lists_means_nothing(
        (members, inputs, previous) in worlds(10),
        seed in any::<u64>(),
    ) {
        let (mut shuffled, mut inputs_too) = (members.clone(), inputs.clone());
        shuffled.sort_by_key(|m| crate_hash(m.incarnation.as_str(), seed));
        inputs_too.sort_by_key(|p| crate_hash(&p.partition.to_string(), seed));
        for assignor in all_assignors() {
            let (one, other) = (
                assignor.assign(&members, &inputs, &previous),
                assignor.assign(&shuffled, &inputs_too, &previous),
            );
            prop_assert_eq!(one, other, "{}", assignor.name());
        }
    }

    #[test]
    fn asked_again_it_moves_nothing((members, inputs, previous) in worlds(12)) {
        for assignor in all_assignors() {
            let once = assignor.assign(&members, &inputs, &previous);
            let previous = Previous { owners: once.clone(), ..previous.clone() };
            let again = assignor.assign(&members, &inputs, &previous);
            prop_assert_eq!(once, again, "{}", assignor.name());
        }
    }

    // P66
    #[test]
    fn a_sticky_assignor_moves_no_more_than_it_must((members, inputs, previous) in worlds(4)) {
        let willing = willing(&members);
        prop_assume!(!willing.is_empty());
        let possible = most_that_can_stay(&willing, inputs.len(), &previous);
        let sticky: [&dyn Assignor; 2] = [&Sticky, &ZoneAware];
        for assignor in sticky {
            let target = assignor.assign(&members, &inputs, &previous);
            let stayed = inputs.len() - moved(&previous.owners, &target)
                - inputs.iter().filter(|p| !previous.owners.contains_key(&p.partition)).count();
            prop_assert_eq!(stayed, possible, "{}", assignor.name());
        }
    }
}

fn crate_hash(text: &str, seed: u64) -> u64 {
    text.bytes().fold(seed, |h, b| {
        (h ^ u64::from(b))
            .wrapping_mul(0x0100_0000_01b3)
            .rotate_left(17)
    })
}
