//! The assignment document on the wire: partitions refer to the member table by index, so that a
//! thousand of them stay under 50 KB.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::{DecodeError, EncodeError, document};
use crate::group::{
    Assignment, Epoch, Formats, GroupDocument, GroupEpoch, Incarnation, MemberEntry, MemberId,
    MetaGeneration, StandbyReason, Standing, Term, Unknown,
};

const KIND: &str = "group";
const FLAG_UNCLEAN: u32 = 1;

#[derive(Serialize, Deserialize)]
struct Wire {
    term: Term,
    holder: Option<Incarnation>,
    epoch: GroupEpoch,
    meta_generation: MetaGeneration,
    seeded: bool,
    /// Hexadecimal: a JSON number of 64 bits is not safe in every language.
    input_hash: String,
    members: Vec<WireMember>,
    partitions: Vec<WireAssignment>,
    #[serde(default)]
    reason: String,
    #[serde(flatten)]
    unknown: Unknown,
}

#[derive(Serialize, Deserialize)]
struct WireMember {
    incarnation: Incarnation,
    id: MemberId,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    zone: Option<String>,
    state: WireStanding,
}

/// `[owner index, epoch, target index, flags]`
type WireAssignment = (Option<usize>, Epoch, Option<usize>, u32);

#[derive(Clone, Copy, Serialize, Deserialize)]
enum WireStanding {
    #[serde(rename = "active")]
    Active,
    #[serde(rename = "draining")]
    Draining,
    #[serde(rename = "standby:Surplus")]
    Surplus,
    #[serde(rename = "standby:NoApplication")]
    NoApplication,
    #[serde(rename = "standby:DuplicateMember")]
    DuplicateMember,
    #[serde(rename = "standby:Replaced")]
    Replaced,
    #[serde(rename = "standby:VersionTooOld")]
    VersionTooOld,
    #[serde(rename = "standby:GroupDeleted")]
    GroupDeleted,
}

/// The document as bytes; an owner or target that is not in the member table is an error.
pub fn encode(document: &GroupDocument) -> Result<Vec<u8>, EncodeError> {
    let index: BTreeMap<&Incarnation, usize> = document.members.keys().zip(0..).collect();
    let place = |member: &Option<Incarnation>| match member {
        None => Ok(None),
        Some(incarnation) => index
            .get(incarnation)
            .copied()
            .map(Some)
            .ok_or_else(|| EncodeError {
                kind: KIND,
                problem: format!("{incarnation} has a partition and is not in the member table"),
            }),
    };
    let partitions = document
        .partitions
        .iter()
        .map(|a| {
            let flags = if a.unclean { FLAG_UNCLEAN } else { 0 };
            Ok((place(&a.owner)?, a.epoch, place(&a.target)?, flags))
        })
        .collect::<Result<_, _>>()?;
    let wire = Wire {
        term: document.term,
        holder: document.holder.clone(),
        epoch: document.epoch,
        meta_generation: document.meta_generation,
        seeded: document.seeded,
        input_hash: format!("{:016x}", document.input_hash),
        members: document.members.iter().map(WireMember::of).collect(),
        partitions,
        reason: document.reason.clone(),
        unknown: document.unknown.clone(),
    };
    document::encode(KIND, Formats::CURRENT.group, &wire)
}

/// The document that these bytes are.
pub fn decode(bytes: &[u8]) -> Result<GroupDocument, DecodeError> {
    let wire: Wire = document::decode(KIND, Formats::CURRENT.group, bytes)?;
    let damaged = |problem: String| DecodeError::Damaged {
        kind: KIND,
        problem,
    };
    let table: Vec<Incarnation> = wire.members.iter().map(|m| m.incarnation.clone()).collect();
    let member = |index: Option<usize>| match index {
        None => Ok(None),
        Some(index) => table.get(index).cloned().map(Some).ok_or_else(|| {
            damaged(format!(
                "a partition names member {index} of {}",
                table.len()
            ))
        }),
    };
    let partitions = wire
        .partitions
        .into_iter()
        .map(|(owner, epoch, target, flags)| {
            let unclean = flags & FLAG_UNCLEAN != 0;
            Ok(Assignment {
                owner: member(owner)?,
                epoch,
                target: member(target)?,
                unclean,
            })
        })
        .collect::<Result<_, _>>()?;
    let input_hash = u64::from_str_radix(&wire.input_hash, 16).map_err(|_| {
        damaged(format!(
            "input_hash {:?} is not hexadecimal",
            wire.input_hash
        ))
    })?;
    let members: BTreeMap<_, _> = wire.members.into_iter().map(WireMember::entry).collect();
    if members.len() != table.len() {
        return Err(damaged(
            "a member stands twice in the member table".to_owned(),
        ));
    }
    Ok(GroupDocument {
        term: wire.term,
        holder: wire.holder,
        epoch: wire.epoch,
        meta_generation: wire.meta_generation,
        seeded: wire.seeded,
        input_hash,
        members,
        partitions,
        reason: wire.reason,
        unknown: wire.unknown,
    })
}

// === impl WireMember ===

impl WireMember {
    fn of((incarnation, entry): (&Incarnation, &MemberEntry)) -> Self {
        Self {
            incarnation: incarnation.clone(),
            id: entry.id.clone(),
            zone: entry.zone.clone(),
            state: entry.standing.into(),
        }
    }

    fn entry(self) -> (Incarnation, MemberEntry) {
        let Self {
            incarnation,
            id,
            zone,
            state,
        } = self;
        (
            incarnation,
            MemberEntry {
                id,
                zone,
                standing: state.into(),
            },
        )
    }
}

// === impl WireStanding ===

impl From<Standing> for WireStanding {
    fn from(standing: Standing) -> Self {
        match standing {
            Standing::Active => Self::Active,
            Standing::Draining => Self::Draining,
            Standing::Standby(StandbyReason::Surplus) => Self::Surplus,
            Standing::Standby(StandbyReason::NoApplication) => Self::NoApplication,
            Standing::Standby(StandbyReason::DuplicateMember) => Self::DuplicateMember,
            Standing::Standby(StandbyReason::Replaced) => Self::Replaced,
            Standing::Standby(StandbyReason::VersionTooOld) => Self::VersionTooOld,
            Standing::Standby(StandbyReason::GroupDeleted) => Self::GroupDeleted,
        }
    }
}

impl From<WireStanding> for Standing {
    fn from(standing: WireStanding) -> Self {
        match standing {
            WireStanding::Active => Self::Active,
            WireStanding::Draining => Self::Draining,
            WireStanding::Surplus => Self::Standby(StandbyReason::Surplus),
            WireStanding::NoApplication => Self::Standby(StandbyReason::NoApplication),
            WireStanding::DuplicateMember => Self::Standby(StandbyReason::DuplicateMember),
            WireStanding::Replaced => Self::Standby(StandbyReason::Replaced),
            WireStanding::VersionTooOld => Self::Standby(StandbyReason::VersionTooOld),
            WireStanding::GroupDeleted => Self::Standby(StandbyReason::GroupDeleted),
        }
    }
}
