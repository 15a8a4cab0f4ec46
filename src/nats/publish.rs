//! Publishing into streams, with the stream's word on each message.

use async_nats::HeaderMap;
use async_nats::header::{HeaderName, HeaderValue, NATS_MESSAGE_ID};
use bytes::Bytes;

use super::api::ApiError;
use super::connect::Connection;
use crate::group::Sequence;

/// A message to be published.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Outgoing {
    /// Where to.
    pub subject: String,
    /// Its headers: name and value, a name may occur several times.
    pub headers: Vec<(String, String)>,
    /// Its content.
    pub payload: Bytes,
    /// Its identity: within the stream's duplicate window a second one is not stored.
    pub id: Option<String>,
}

/// How a publish ended.
#[derive(Clone, Debug, PartialEq, Eq)]
#[must_use = "only a stored message is published"]
pub enum PublishOutcome {
    /// It is in the stream.
    Stored {
        /// Which one.
        stream: String,
        /// As which message.
        sequence: Sequence,
        /// A message of this id was there already; the sequence is that one's.
        duplicate: bool,
    },
    /// Whether it is stored, or will be, is not known. The same again, with an id, is safe.
    Unknown {
        /// What happened.
        why: String,
    },
    /// No stream takes this subject, or its stream has no leader at the moment.
    NoStream {
        /// The subject.
        subject: String,
    },
    /// It does not fit.
    TooLarge {
        /// Headers and payload.
        size: usize,
        /// What the server takes.
        limit: usize,
    },
    /// The message cannot be sent as it is.
    Invalid {
        /// What to change.
        sentence: String,
    },
    /// The stream does not take it, and would not take it again.
    Refused {
        /// The error code.
        code: u64,
        /// The reason.
        text: String,
    },
}

/// Publishes and waits for the stream's word.
pub async fn publish(connection: &Connection, message: Outgoing) -> PublishOutcome {
    let Outgoing {
        subject,
        headers,
        payload,
        id,
    } = message;
    if let Some(sentence) = misuse(&subject) {
        return PublishOutcome::Invalid { sentence };
    }
    let headers = match header_map(&headers, id.as_deref()) {
        Ok(headers) => headers,
        Err(sentence) => return PublishOutcome::Invalid { sentence },
    };
    let api = connection.jetstream();
    match api.publish(&subject, headers, payload).await {
        Ok(ack) => PublishOutcome::Stored {
            stream: ack.stream,
            sequence: Sequence(ack.seq),
            duplicate: ack.duplicate,
        },
        Err(error) => of_error(subject, error),
    }
}

fn of_error(subject: String, error: ApiError) -> PublishOutcome {
    match error {
        ApiError::TooLarge { size, limit } => PublishOutcome::TooLarge { size, limit },
        // Nobody had it in hand: nothing was stored.
        ApiError::NoResponders { .. } => PublishOutcome::NoStream { subject },
        ApiError::Refused(refusal) if refusal.code != 503 => PublishOutcome::Refused {
            code: refusal.err_code,
            text: refusal.to_string(),
        },
        ApiError::Refused(_)
        | ApiError::Unanswered { .. }
        | ApiError::Lost { .. }
        | ApiError::Garbled { .. } => PublishOutcome::Unknown {
            why: error.to_string(),
        },
    }
}

/// What is wrong with a subject to publish to.
fn misuse(subject: &str) -> Option<String> {
    let wrong = if subject.is_empty() || subject.split('.').any(str::is_empty) {
        "has an empty token"
    } else if subject.contains(['*', '>']) {
        "holds a wildcard"
    } else if subject.contains(|c: char| c.is_whitespace() || c.is_control()) {
        "holds a space or a control character"
    } else {
        return None;
    };
    Some(format!(
        "the subject {subject:?} {wrong}; write tokens separated by dots"
    ))
}

fn header_map(headers: &[(String, String)], id: Option<&str>) -> Result<HeaderMap, String> {
    let mut map = HeaderMap::new();
    for (name, value) in headers {
        let wrong = || {
            format!(
                "the header {name:?} is not valid; a name is printable ASCII without ':' and \
                 spaces, and a value holds no line break"
            )
        };
        let name: HeaderName = name.parse().map_err(|_| wrong())?;
        let value: HeaderValue = value.parse().map_err(|_| wrong())?;
        map.append(name, value);
    }
    if let Some(id) = id {
        let value: HeaderValue = id
            .parse()
            .map_err(|_| format!("the id {id:?} is not valid; it must hold no line break"))?;
        map.insert(NATS_MESSAGE_ID, value);
    }
    Ok(map)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_subject_that_cannot_be_published_to_is_refused_with_a_sentence() {
        for wrong in ["", "a..b", ".a", "a.", "a.*", "a.>", "a b", "a\r\nPUB x"] {
            assert!(misuse(wrong).is_some(), "{wrong:?} was taken");
        }
        assert_eq!(misuse("orders.größe.1"), None);
    }

    #[test]
    fn a_header_cannot_smuggle_in_another_line() {
        let header = |name: &str, value: &str| vec![(name.to_owned(), value.to_owned())];
        assert!(header_map(&header("a", "1\r\nb: 2"), None).is_err());
        assert!(header_map(&header("a\r\nb", "1"), None).is_err());
        assert!(header_map(&header("a:b", "1"), None).is_err());
        assert!(header_map(&[], Some("x\ny")).is_err());
        let two = [header("a", "1"), header("a", "2")].concat();
        let map = header_map(&two, Some("id-1")).unwrap();
        assert_eq!(map.get_all("a").count(), 2);
        assert_eq!(map.get("Nats-Msg-Id").unwrap().as_str(), "id-1");
    }

    #[test]
    fn nobody_listening_means_not_stored_and_silence_means_unknown() {
        let subject = || "orders.1".to_owned();
        let nobody = ApiError::NoResponders { subject: subject() };
        let silence = ApiError::Lost {
            subject: subject(),
            detail: String::new(),
        };
        let nobody = of_error(subject(), nobody);
        assert!(matches!(nobody, PublishOutcome::NoStream { .. }));
        let silence = of_error(subject(), silence);
        assert!(matches!(silence, PublishOutcome::Unknown { .. }));
    }
}
