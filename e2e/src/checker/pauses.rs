//! How long each partition stood still around each event.
//!
//! A pause is the time that the next message of a partition waited for nobody but the group: from
//! its publication, or from the first sighting of the one before it, whichever is later, to its
//! own first sighting. It belongs to the last event before it ended.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::prepared::Prepared;
use crate::clock;
use crate::history::At;

/// The longest pause of each partition between one event and the next.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct EventPauses {
    /// What happened.
    pub event: String,
    /// Partition and milliseconds.
    pub longest_ms: BTreeMap<u32, u64>,
}

impl EventPauses {
    /// The longest of all, and whose it is.
    pub fn worst(&self) -> Option<(u32, Duration)> {
        let worst = self.longest_ms.iter().max_by_key(|(_, pause)| **pause);
        worst.map(|(partition, pause)| (*partition, Duration::from_millis(*pause)))
    }
}

pub(crate) fn measure(history: &Prepared) -> Vec<EventPauses> {
    let mut measured: Vec<EventPauses> = history
        .events
        .iter()
        .map(|(_, name)| EventPauses {
            event: name.clone(),
            longest_ms: BTreeMap::new(),
        })
        .collect();
    let mut seen = BTreeSet::new();
    let mut last_first: BTreeMap<u32, At> = BTreeMap::new();
    for sighting in history.sightings() {
        let place = (sighting.partition, sighting.sequence);
        if !seen.insert(place) {
            continue;
        }
        let before = last_first
            .insert(sighting.partition, sighting.at)
            .unwrap_or(0);
        let published = history
            .published
            .get(&place.0)
            .and_then(|all| all.get(&place.1));
        let Some(published) = published else { continue };
        let pause = clock::span(before.max(published.at), sighting.at).as_millis();
        let follows = history.events.partition_point(|(at, _)| *at <= sighting.at);
        if let Some(event) = follows
            .checked_sub(1)
            .and_then(|index| measured.get_mut(index))
        {
            let longest = event.longest_ms.entry(sighting.partition).or_default();
            *longest = (*longest).max(u64::try_from(pause).unwrap_or(u64::MAX));
        }
    }
    measured
}
