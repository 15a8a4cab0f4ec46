//! What is to be done for one group: a pure function of what was observed.

use std::time::Duration;

use crate::crd::{DeletionPolicy, Reason};

/// What was observed of a group.
#[derive(Clone, Debug)]
#[expect(clippy::struct_excessive_bools, reason = "each was observed by itself")]
pub(super) struct Observed {
    /// Somebody asked that nothing be written for it.
    pub(super) left_alone: bool,
    /// How long ago it was asked to be deleted.
    pub(super) deleted_since: Option<Duration>,
    pub(super) policy: DeletionPolicy,
    pub(super) has_finalizer: bool,
    /// Its namespace is being deleted; looked at only where a finalizer may be added.
    pub(super) namespace_ends: bool,
    pub(super) connection: ConnectionSeen,
    /// What speaks against the manifest itself.
    pub(super) violations: Vec<String>,
    pub(super) generation: i64,
    /// Somebody asked, by an annotation, for something to be done once.
    pub(super) asked: bool,
    pub(super) running: Option<RunningSeen>,
    pub(super) resync: Duration,
    /// The same for a group that something is missing of.
    pub(super) look_sooner: Duration,
    pub(super) cleanup_timeout: Duration,
}

/// The group's connection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum ConnectionSeen {
    /// The connection with this serial number.
    Ready(u64),
    /// It was not looked at yet.
    Unseen,
    NotReady(Reason, String),
}

/// The group's coordinator.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct RunningSeen {
    /// The edition of the object that it was provided for.
    pub(super) generation: i64,
    /// It is for this object, not for one of the same name that is gone.
    pub(super) same_object: bool,
    /// The connection that it was provided over.
    pub(super) serial: u64,
    /// Nothing was missing when everything was last looked at.
    pub(super) well: bool,
    /// How long ago everything was last looked at.
    pub(super) looked_ago: Duration,
    /// It has ended by itself, or its state is lost.
    pub(super) ended: bool,
}

/// What is to be done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Plan {
    pub(super) finalizer: Finalizer,
    pub(super) course: Course,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Finalizer {
    Leave,
    Add,
    Remove,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Course {
    /// Nothing is written, here or in NATS.
    LeaveAlone,
    /// Its connection will be looked at in a moment.
    Wait,
    /// The object is on its way out, and what stays behind is somebody else's matter.
    LetGo,
    /// What Lockstep made is removed; then the object may go.
    CleanUp,
    /// Cleaning up has been tried for too long: the object goes, what is left is named.
    GiveUp,
    /// It cannot be provided until its object or its connection changes.
    Refuse(Reason, String),
    /// Streams, bucket and description are looked at, and made what they should be.
    Provide,
    /// All is as it should be.
    Watch,
}

/// What is to be done for this group.
pub(super) fn plan(seen: &Observed) -> Plan {
    if seen.left_alone {
        return Plan {
            finalizer: Finalizer::Leave,
            course: Course::LeaveAlone,
        };
    }
    Plan {
        finalizer: finalizer(seen),
        course: course(seen),
    }
}

fn finalizer(seen: &Observed) -> Finalizer {
    let deleted = seen.deleted_since.is_some();
    match (seen.policy, seen.has_finalizer) {
        // No new finalizer in a namespace that is being deleted: it could never be served.
        (DeletionPolicy::Delete, false) if !deleted && !seen.namespace_ends => Finalizer::Add,
        (DeletionPolicy::Retain, true) if !deleted => Finalizer::Remove,
        (DeletionPolicy::Delete | DeletionPolicy::Retain, _) => Finalizer::Leave,
    }
}

fn course(seen: &Observed) -> Course {
    if let Some(since) = seen.deleted_since {
        return match (seen.has_finalizer, since >= seen.cleanup_timeout) {
            (false, _) => Course::LetGo,
            (true, true) => Course::GiveUp,
            (true, false) => Course::CleanUp,
        };
    }
    let serial = match &seen.connection {
        ConnectionSeen::NotReady(reason, message) => {
            return Course::Refuse(*reason, message.clone());
        }
        ConnectionSeen::Unseen => return Course::Wait,
        ConnectionSeen::Ready(serial) => *serial,
    };
    if !seen.violations.is_empty() {
        return Course::Refuse(Reason::InvalidSpec, seen.violations.join("; "));
    }
    let settled = seen.running.is_some_and(|running| {
        running.same_object
            && !running.ended
            && running.generation == seen.generation
            && running.serial == serial
            && running.looked_ago < wait_of(seen, running.well)
    });
    if settled && !seen.asked {
        Course::Watch
    } else {
        Course::Provide
    }
}

fn wait_of(seen: &Observed, well: bool) -> Duration {
    if well { seen.resync } else { seen.look_sooner }
}

// === impl Course ===

impl Course {
    /// Whether the group may no longer be coordinated from here: members go on without.
    pub(super) fn suspends(&self) -> bool {
        match self {
            Self::LeaveAlone => true,
            Self::Refuse(reason, _) => *reason == Reason::NotGranted,
            Self::Wait
            | Self::LetGo
            | Self::CleanUp
            | Self::GiveUp
            | Self::Provide
            | Self::Watch => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seen() -> Observed {
        Observed {
            left_alone: false,
            deleted_since: None,
            policy: DeletionPolicy::Retain,
            has_finalizer: false,
            namespace_ends: false,
            connection: ConnectionSeen::Ready(7),
            violations: Vec::new(),
            generation: 3,
            asked: false,
            running: None,
            resync: Duration::from_secs(300),
            look_sooner: Duration::from_secs(30),
            cleanup_timeout: Duration::from_secs(300),
        }
    }

    fn running(generation: i64) -> RunningSeen {
        RunningSeen {
            generation,
            same_object: true,
            serial: 7,
            well: true,
            looked_ago: Duration::ZERO,
            ended: false,
        }
    }

    #[test]
    fn a_group_is_provided_when_it_is_new_changed_or_long_not_looked_at() {
        assert_eq!(plan(&seen()).course, Course::Provide);
        let settled = Observed {
            running: Some(running(3)),
            ..seen()
        };
        assert_eq!(plan(&settled).course, Course::Watch);
        let changed = Observed {
            running: Some(running(2)),
            ..seen()
        };
        assert_eq!(plan(&changed).course, Course::Provide);
        let mut asked = settled.clone();
        asked.asked = true;
        assert_eq!(plan(&asked).course, Course::Provide);
        let mut long_ago = settled;
        long_ago.resync = Duration::ZERO;
        assert_eq!(plan(&long_ago).course, Course::Provide);
    }

    #[test]
    fn a_group_that_something_is_missing_of_is_looked_at_sooner() {
        let mut seen = Observed {
            running: Some(running(3)),
            ..seen()
        };
        seen.running.as_mut().unwrap().looked_ago = Duration::from_secs(60);
        assert_eq!(plan(&seen).course, Course::Watch);
        seen.running.as_mut().unwrap().well = false;
        assert_eq!(plan(&seen).course, Course::Provide);
    }

    #[test]
    fn another_connection_and_an_end_of_the_coordinator_call_for_a_new_one() {
        let mut moved = Observed {
            running: Some(running(3)),
            ..seen()
        };
        moved.connection = ConnectionSeen::Ready(8);
        assert_eq!(plan(&moved).course, Course::Provide);
        let mut ended = Observed {
            running: Some(running(3)),
            ..seen()
        };
        ended.running.as_mut().unwrap().ended = true;
        assert_eq!(plan(&ended).course, Course::Provide);
    }

    #[test]
    fn a_connection_that_nobody_has_looked_at_yet_is_waited_for() {
        let unseen = Observed {
            connection: ConnectionSeen::Unseen,
            ..seen()
        };
        assert_eq!(plan(&unseen).course, Course::Wait);
    }

    #[test]
    fn only_a_person_or_a_withdrawn_grant_takes_a_groups_coordinator_away() {
        let refused = |reason| {
            let connection = ConnectionSeen::NotReady(reason, String::new());
            let seen = Observed {
                connection,
                ..seen()
            };
            plan(&seen).course.suspends()
        };
        assert!(refused(Reason::NotGranted));
        assert!(!refused(Reason::Unreachable));
        assert!(!refused(Reason::AuthorizationViolation));
        let alone = Observed {
            left_alone: true,
            ..seen()
        };
        assert!(plan(&alone).course.suspends());
        assert!(!plan(&seen()).course.suspends());
    }

    #[test]
    fn another_object_of_the_same_name_is_provided_anew() {
        let mut other = Observed {
            running: Some(running(3)),
            ..seen()
        };
        other.running.as_mut().unwrap().same_object = false;
        assert_eq!(plan(&other).course, Course::Provide);
    }

    #[test]
    fn a_group_that_is_left_alone_is_left_alone_even_when_it_is_deleted() {
        let alone = Observed {
            left_alone: true,
            deleted_since: Some(Duration::ZERO),
            policy: DeletionPolicy::Delete,
            ..seen()
        };
        let plan = plan(&alone);
        assert_eq!(
            (plan.finalizer, plan.course),
            (Finalizer::Leave, Course::LeaveAlone)
        );
    }

    #[test]
    fn only_delete_has_a_finalizer_and_not_in_a_namespace_that_ends() {
        let delete = Observed {
            policy: DeletionPolicy::Delete,
            ..seen()
        };
        assert_eq!(plan(&delete).finalizer, Finalizer::Add);
        let ending = Observed {
            namespace_ends: true,
            ..delete.clone()
        };
        assert_eq!(plan(&ending).finalizer, Finalizer::Leave);
        let retain = Observed {
            has_finalizer: true,
            ..seen()
        };
        assert_eq!(plan(&retain).finalizer, Finalizer::Remove);
        assert_eq!(plan(&seen()).finalizer, Finalizer::Leave);
    }

    #[test]
    fn cleaning_up_is_given_up_after_its_time() {
        let mut deleted = Observed {
            deleted_since: Some(Duration::from_secs(10)),
            policy: DeletionPolicy::Delete,
            has_finalizer: true,
            connection: ConnectionSeen::NotReady(Reason::Unreachable, String::new()),
            ..seen()
        };
        assert_eq!(plan(&deleted).course, Course::CleanUp);
        deleted.deleted_since = Some(Duration::from_secs(300));
        assert_eq!(plan(&deleted).course, Course::GiveUp);
        deleted.has_finalizer = false;
        assert_eq!(plan(&deleted).course, Course::LetGo);
    }
}
