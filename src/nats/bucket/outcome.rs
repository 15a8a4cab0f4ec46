//! How a write into the bucket ends: told apart here, and only here, by error code.

use super::super::api::{ApiError, PubAck, code};
use crate::group::Revision;

/// How a compare-and-set ended. What follows from it is the caller's to decide.
#[derive(Clone, Debug, PartialEq, Eq)]
#[must_use = "an unknown write has to be looked up before the next one"]
pub enum CasOutcome {
    /// It is stored, as this revision.
    Stored(Revision),
    /// The key stands at another revision; an earlier attempt of ours may have made it.
    Conflict {
        /// The key's revision, if the server named it; zero: the key is not there.
        stands_at: Option<Revision>,
    },
    /// Another conditional write of this key is in flight, or the leader cannot check yet: the
    /// same again after a while.
    Busy,
    /// Whether it is stored, or will be, is not known.
    Unknown {
        /// What happened.
        why: String,
    },
    /// The server does not take it, and would not take it again.
    Refused {
        /// The error code; zero if the client refused.
        code: u64,
        /// The reason.
        text: String,
    },
}

/// How an unconditional write ended.
#[derive(Clone, Debug, PartialEq, Eq)]
#[must_use = "only the revision of a stored write is proof of anything"]
pub enum PutOutcome {
    /// It is stored, as this revision.
    Stored(Revision),
    /// Whether it is stored, or will be, is not known.
    Unknown {
        /// What happened.
        why: String,
    },
    /// The server does not take it, and would not take it again.
    Refused {
        /// The error code; zero if the client refused.
        code: u64,
        /// The reason.
        text: String,
    },
}

/// The table of endings of a conditional write.
pub(super) fn of_cas(answer: Result<PubAck, ApiError>) -> CasOutcome {
    let error = match answer {
        Ok(ack) => return CasOutcome::Stored(Revision(ack.seq)),
        Err(error) => error,
    };
    match error.code() {
        Some(code::WRONG_LAST_SEQUENCE) => CasOutcome::Conflict {
            stands_at: revision_in(&error),
        },
        Some(code::WRONG_LAST_SEQUENCE_UNNAMED | code::CANNOT_CHECK_YET) => CasOutcome::Busy,
        Some(_) | None => match of_other(error) {
            PutOutcome::Stored(revision) => CasOutcome::Stored(revision),
            PutOutcome::Unknown { why } => CasOutcome::Unknown { why },
            PutOutcome::Refused { code, text } => CasOutcome::Refused { code, text },
        },
    }
}

/// The table of endings of a plain write.
pub(super) fn of_put(answer: Result<PubAck, ApiError>) -> PutOutcome {
    match answer {
        Ok(ack) => PutOutcome::Stored(Revision(ack.seq)),
        Err(error) => of_other(error),
    }
}

fn of_other(error: ApiError) -> PutOutcome {
    match error {
        // A client-side refusal: nothing has left this process.
        ApiError::TooLarge { .. } => PutOutcome::Refused {
            code: 0,
            text: error.to_string(),
        },
        // 503: not now. Whether the write is in the leader's hands is not known.
        ApiError::Refused(refusal) if refusal.code != 503 => PutOutcome::Refused {
            code: refusal.err_code,
            text: refusal.to_string(),
        },
        ApiError::Refused(_)
        | ApiError::Unanswered { .. }
        | ApiError::NoResponders { .. }
        | ApiError::Lost { .. }
        | ApiError::Garbled { .. } => PutOutcome::Unknown {
            why: error.to_string(),
        },
    }
}

/// "wrong last sequence: 17" names the revision that the key stands at.
fn revision_in(error: &ApiError) -> Option<Revision> {
    let ApiError::Refused(refusal) = error else {
        return None;
    };
    let (_, number) = refusal.description.rsplit_once(':')?;
    number.trim().parse().ok().map(Revision)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::super::super::api::Refusal;
    use super::*;

    fn refused(code: u16, err_code: u64, description: &str) -> Result<PubAck, ApiError> {
        Err(ApiError::Refused(Refusal {
            code,
            err_code,
            description: description.to_owned(),
        }))
    }

    // P22
    #[test]
    fn an_acknowledged_write_is_stored_as_its_sequence() {
        let ack = PubAck {
            stream: "KV_b".to_owned(),
            seq: 7,
            duplicate: false,
        };
        assert_eq!(of_cas(Ok(ack)), CasOutcome::Stored(Revision(7)));
    }

    // P23
    #[test]
    fn code_10071_is_a_conflict_that_names_where_the_key_stands() {
        let outcome = of_cas(refused(400, 10071, "wrong last sequence: 17"));
        let stands_at = Some(Revision(17));
        assert_eq!(outcome, CasOutcome::Conflict { stands_at });
        let outcome = of_cas(refused(400, 10071, "wrong last sequence: 0"));
        let stands_at = Some(Revision(0));
        assert_eq!(outcome, CasOutcome::Conflict { stands_at });
        let outcome = of_cas(refused(400, 10071, "wrong last sequence"));
        assert_eq!(outcome, CasOutcome::Conflict { stands_at: None });
    }

    // P24
    #[test]
    fn code_10164_is_another_write_in_flight_and_no_fence() {
        assert_eq!(
            of_cas(refused(400, 10164, "wrong last sequence")),
            CasOutcome::Busy
        );
    }

    // P24
    #[test]
    fn code_10163_is_a_leader_that_cannot_check_yet() {
        assert_eq!(of_cas(refused(503, 10163, "not yet")), CasOutcome::Busy);
    }

    // P25
    #[test]
    fn silence_a_broken_pipe_and_no_responders_are_unknown() {
        let subject = || "s".to_owned();
        for error in [
            ApiError::Unanswered {
                subject: subject(),
                waited: Duration::from_secs(3),
            },
            ApiError::Lost {
                subject: subject(),
                detail: "broken pipe".to_owned(),
            },
            ApiError::NoResponders { subject: subject() },
            ApiError::Garbled {
                subject: subject(),
                detail: "?".to_owned(),
            },
        ] {
            let outcome = of_cas(Err(error));
            assert!(matches!(outcome, CasOutcome::Unknown { .. }), "{outcome:?}");
        }
        let outcome = of_cas(refused(503, 10008, "temporarily unavailable"));
        assert!(matches!(outcome, CasOutcome::Unknown { .. }), "{outcome:?}");
    }

    #[test]
    fn any_other_code_is_a_refusal_that_carries_it() {
        let outcome = of_cas(refused(400, 10077, "maximum messages exceeded"));
        assert!(matches!(outcome, CasOutcome::Refused { code: 10077, .. }));
        let outcome = of_put(refused(400, 10165, "invalid TTL"));
        assert!(matches!(outcome, PutOutcome::Refused { code: 10165, .. }));
        let too_large = ApiError::TooLarge { size: 2, limit: 1 };
        let outcome = of_cas(Err(too_large));
        assert!(matches!(outcome, CasOutcome::Refused { code: 0, .. }));
    }
}
