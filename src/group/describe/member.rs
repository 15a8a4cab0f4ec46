//! One member, for display.

use std::collections::BTreeSet;

use serde::Serialize;

use super::{Heard, Seen};
use crate::group::{
    Incarnation, MemberDocument, MemberEntry, MemberState, StandbyReason, Standing,
};

/// A member in a word.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum MemberWord {
    /// It may own partitions.
    Active,
    /// It is healthy and owns nothing.
    Standby,
    /// It is leaving.
    Draining,
    /// It has not been taken into the assignment yet.
    Joining,
    /// It has left.
    Left,
    /// The assignment lists it, and it was not heard within its session timeout.
    Silent,
}

/// A member for display. Its JSON is what `lockstep group members -o json` prints.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct MemberRow {
    /// Its label.
    pub id: String,
    /// The member itself.
    pub incarnation: String,
    /// How it stands.
    pub state: MemberWord,
    /// Why it stands by, as a reason word.
    pub reason: Option<String>,
    /// Its zone.
    pub zone: Option<String>,
    /// The partitions that it owns.
    pub partitions: Vec<u32>,
    /// Messages in its application's hands; null when it has not said.
    pub in_flight: Option<u64>,
    /// Whether its application is connected; null when it has not said.
    pub app_connected: Option<bool>,
    /// The newest group epoch that it has seen.
    pub seen_epoch: Option<u64>,
    /// How long ago it was heard, in milliseconds of the wall clock.
    pub heard_ms: Option<u64>,
    /// Its program's version.
    pub version: Option<String>,
    /// The pod that it runs in: its node.
    pub node: Option<String>,
}

/// Members by id: those in the document, and those that have only been heard so far.
pub(super) fn rows(seen: &Seen) -> Vec<MemberRow> {
    let listed = seen.document().into_iter().flat_map(|d| d.members.keys());
    let known: BTreeSet<&Incarnation> = listed.chain(seen.members.keys()).collect();
    let mut rows: Vec<MemberRow> = known.into_iter().map(|m| row(seen, m)).collect();
    // What has left or died long ago is only noise.
    rows.retain(|row| row.state != MemberWord::Left || !row.partitions.is_empty());
    rows.sort_by(|a, b| (&a.id, &a.incarnation).cmp(&(&b.id, &b.incarnation)));
    rows
}

fn row(seen: &Seen, member: &Incarnation) -> MemberRow {
    let entry = seen.document().and_then(|d| d.members.get(member));
    let heard = seen.members.get(member);
    let says = heard.map(|h| &h.document);
    let owned = seen.document().into_iter().flat_map(|d| d.owned_by(member));
    let id = entry.map(|e| e.id.to_string());
    let id = id.or_else(|| says.map(|d| d.id.to_string()));
    let zone = entry.and_then(|e| e.zone.clone());
    let pod = says.and_then(|d| d.pod.as_ref());
    let in_flight = |d: &MemberDocument| d.held.iter().map(|h| u64::from(h.in_flight)).sum();
    MemberRow {
        id: id.unwrap_or_default(),
        incarnation: member.to_string(),
        state: word(seen, entry, heard),
        reason: entry.and_then(|e| reason(e.standing)),
        zone: zone.or_else(|| says.and_then(|d| d.zone.clone())),
        partitions: owned.map(|(p, _)| p.0).collect(),
        in_flight: says.map(in_flight),
        app_connected: says.map(|d| d.app.connected),
        seen_epoch: says.map(|d| d.seen_epoch.0),
        heard_ms: heard.map(|h| seen.age_ms(h.at)),
        version: says.map(|d| d.version.clone()),
        node: pod.map(|p| p.node.clone()).filter(|node| !node.is_empty()),
    }
}

fn word(
    seen: &Seen,
    entry: Option<&MemberEntry>,
    heard: Option<&Heard<MemberDocument>>,
) -> MemberWord {
    let fresh = heard.is_some_and(|h| seen.is_fresh(h));
    let state = heard.map(|h| h.document.state);
    match entry.map(|e| e.standing) {
        _ if state == Some(MemberState::Left) => MemberWord::Left,
        // Not listed and not heard of: nobody waits for it.
        None if !fresh => MemberWord::Left,
        Some(_) if !fresh => MemberWord::Silent,
        None if state == Some(MemberState::Draining) => MemberWord::Draining,
        None => MemberWord::Joining,
        Some(Standing::Active) => MemberWord::Active,
        Some(Standing::Standby(_)) => MemberWord::Standby,
        Some(Standing::Draining) => MemberWord::Draining,
    }
}

fn reason(standing: Standing) -> Option<String> {
    match standing {
        Standing::Standby(StandbyReason::NoApplication) => Some("AppNotConnected".to_owned()),
        Standing::Standby(reason) => Some(format!("{reason:?}")),
        Standing::Active | Standing::Draining => None,
    }
}

// === impl MemberWord ===

impl std::fmt::Display for MemberWord {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Active => "active",
            Self::Standby => "standby",
            Self::Draining => "draining",
            Self::Joining => "joining",
            Self::Left => "left",
            Self::Silent => "silent",
        })
    }
}
