//! Requests to the `JetStream` API, and the one place where its answers are told apart.
//!
//! Not through the client's own context: that one folds error codes into kinds, so that for
//! example "another write of this key is in flight" (10164) is just "other" there.

use std::time::Duration;

use async_nats::client::RequestErrorKind;
use async_nats::{Client, HeaderMap, Message, Request};
use bytes::Bytes;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use tokio::sync::watch;

/// The `JetStream` API as one connection reaches it.
#[derive(Clone, Debug)]
pub(crate) struct Api {
    client: watch::Receiver<Client>,
    prefix: String,
    timeout: Duration,
}

/// Why a request to the `JetStream` API has no result.
#[derive(Debug, thiserror::Error)]
pub enum ApiError {
    /// Nobody answered in time; what was asked may still happen.
    #[error("no answer to {subject} within {waited:?}")]
    Unanswered {
        /// What was asked.
        subject: String,
        /// How long was waited.
        waited: Duration,
    },
    /// No server took the request: no stream there, an election, or no `JetStream`.
    #[error(
        "nobody serves {subject}: the stream has no leader at the moment, does not exist, or \
         JetStream is not enabled for this account"
    )]
    NoResponders {
        /// What was asked.
        subject: String,
    },
    /// The connection went away under the request.
    #[error("the connection was lost while {subject} was asked: {detail}")]
    Lost {
        /// What was asked.
        subject: String,
        /// What the client says.
        detail: String,
    },
    /// The server refused.
    #[error("{0}")]
    Refused(Refusal),
    /// The request does not fit.
    #[error(
        "a message of {size} bytes is larger than the server's max_payload of {limit} bytes; \
         raise max_payload on the server or send less"
    )]
    TooLarge {
        /// Headers and payload.
        size: usize,
        /// What the server takes.
        limit: usize,
    },
    /// The answer makes no sense.
    #[error("the answer to {subject} is not understood: {detail}")]
    Garbled {
        /// What was asked.
        subject: String,
        /// What is wrong with it.
        detail: String,
    },
}

/// A server's refusal.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct Refusal {
    /// A number as of HTTP.
    #[serde(default)]
    pub code: u16,
    /// The number that tells refusals apart.
    #[serde(default)]
    pub err_code: u64,
    /// The server's words.
    #[serde(default)]
    pub description: String,
}

/// What an error calls for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Remedy {
    /// Send the same again after a while: nothing is known to have happened.
    Retry,
    /// Look what is there now before anything else is sent.
    Observe,
    /// A person has to change a setting, a permission or the server.
    AskOperator,
}

/// Error codes of `JetStream` that mean something to us.
pub(crate) mod code {
    pub(crate) const CONSUMER_NAME_IN_USE: u64 = 10013;
    pub(crate) const CONSUMER_NOT_FOUND: u64 = 10014;
    pub(crate) const MAXIMUM_CONSUMERS: u64 = 10026;
    pub(crate) const NO_MESSAGE: u64 = 10037;
    pub(crate) const NOT_ENABLED_FOR_ACCOUNT: u64 = 10039;
    pub(crate) const STREAM_EXISTS: u64 = 10058;
    pub(crate) const STREAM_NOT_FOUND: u64 = 10059;
    pub(crate) const SUBJECTS_OVERLAP: u64 = 10065;
    pub(crate) const WRONG_LAST_SEQUENCE: u64 = 10071;
    pub(crate) const NOT_ENABLED: u64 = 10076;
    pub(crate) const CONSUMER_EXISTS: u64 = 10148;
    pub(crate) const CANNOT_CHECK_YET: u64 = 10163;
    pub(crate) const WRONG_LAST_SEQUENCE_UNNAMED: u64 = 10164;
}

/// An answer: the result's fields, or an error.
#[derive(Deserialize)]
struct Failed {
    error: Refusal,
}

// === impl Api ===

impl Api {
    pub(crate) fn new(
        client: watch::Receiver<Client>,
        domain: Option<&str>,
        timeout: Duration,
    ) -> Self {
        let prefix = match domain {
            Some(domain) => format!("$JS.{domain}.API"),
            None => "$JS.API".to_owned(),
        };
        Self {
            client,
            prefix,
            timeout,
        }
    }

    /// The client underneath, as it is now.
    pub(super) fn client(&self) -> Client {
        self.client.borrow().clone()
    }

    /// How long an answer is awaited.
    pub(crate) fn timeout(&self) -> Duration {
        self.timeout
    }

    /// The full subject of an API call.
    pub(crate) fn subject(&self, call: &str) -> String {
        format!("{}.{call}", self.prefix)
    }

    /// Asks, and reads the answer.
    pub(crate) async fn call<T: DeserializeOwned>(
        &self,
        call: &str,
        body: &serde_json::Value,
    ) -> Result<T, ApiError> {
        let payload = if body.is_null() {
            Bytes::new()
        } else {
            Bytes::from(body.to_string())
        };
        let subject = self.subject(call);
        let answer = self.ask(&subject, None, payload).await?;
        read(&subject, &answer.payload)
    }

    /// Publishes to a stream and waits for its word.
    pub(crate) async fn publish(
        &self,
        subject: &str,
        headers: HeaderMap,
        payload: Bytes,
    ) -> Result<PubAck, ApiError> {
        let answer = self.ask(subject, Some(headers), payload).await?;
        read(subject, &answer.payload)
    }

    async fn ask(
        &self,
        subject: &str,
        headers: Option<HeaderMap>,
        payload: Bytes,
    ) -> Result<Message, ApiError> {
        let size = payload.len() + headers.as_ref().map_or(0, wire_len);
        let mut request = Request::new().payload(payload).timeout(Some(self.timeout));
        if let Some(headers) = headers {
            request = request.headers(headers);
        }
        // The client's own bound covers the answer only: with a full queue, as during an outage,
        // handing over the request waits as well.
        let client = self.client();
        let sent = client.send_request(subject.to_owned(), request);
        let answer = tokio::time::timeout(self.timeout, sent).await;
        let subject = subject.to_owned();
        match answer {
            Ok(Ok(message)) => Ok(message),
            Ok(Err(error)) => Err(match error.kind() {
                RequestErrorKind::TimedOut => self.unanswered(subject),
                RequestErrorKind::NoResponders => ApiError::NoResponders { subject },
                RequestErrorKind::MaxPayloadExceeded => ApiError::TooLarge {
                    size,
                    limit: client.max_payload(),
                },
                RequestErrorKind::InvalidSubject | RequestErrorKind::Other => ApiError::Lost {
                    subject,
                    detail: error.to_string(),
                },
            }),
            Err(_) => Err(self.unanswered(subject)),
        }
    }

    fn unanswered(&self, subject: String) -> ApiError {
        ApiError::Unanswered {
            subject,
            waited: self.timeout,
        }
    }
}

/// A stream's word on a publish.
#[derive(Clone, Debug, Deserialize)]
pub(crate) struct PubAck {
    pub(crate) stream: String,
    pub(crate) seq: u64,
    #[serde(default)]
    pub(crate) duplicate: bool,
}

/// Roughly what the headers take on the wire; for messages to people only.
fn wire_len(headers: &HeaderMap) -> usize {
    let lines = headers.iter().flat_map(|(name, values)| {
        let name: &str = name.as_ref();
        values
            .iter()
            .map(move |value| name.len() + value.as_str().len() + 4)
    });
    "NATS/1.0\r\n\r\n".len() + lines.sum::<usize>()
}

fn read<T: DeserializeOwned>(subject: &str, payload: &[u8]) -> Result<T, ApiError> {
    if let Ok(Failed { error }) = serde_json::from_slice(payload) {
        return Err(ApiError::Refused(error));
    }
    serde_json::from_slice(payload).map_err(|error| ApiError::Garbled {
        subject: subject.to_owned(),
        detail: error.to_string(),
    })
}

// === impl ApiError ===

impl ApiError {
    /// The server's error code, if it answered with one.
    pub(crate) fn code(&self) -> Option<u64> {
        match self {
            Self::Refused(refusal) => Some(refusal.err_code),
            Self::Unanswered { .. }
            | Self::NoResponders { .. }
            | Self::Lost { .. }
            | Self::TooLarge { .. }
            | Self::Garbled { .. } => None,
        }
    }

    /// What this calls for.
    pub fn remedy(&self) -> Remedy {
        match self {
            Self::Unanswered { .. } | Self::Lost { .. } => Remedy::Observe,
            Self::NoResponders { .. } => Remedy::Retry,
            Self::Refused(refusal) => refusal.remedy(),
            Self::TooLarge { .. } | Self::Garbled { .. } => Remedy::AskOperator,
        }
    }
}

// === impl Refusal ===

impl Refusal {
    /// What this refusal calls for.
    pub fn remedy(&self) -> Remedy {
        match self.err_code {
            code::WRONG_LAST_SEQUENCE => Remedy::Observe,
            code::WRONG_LAST_SEQUENCE_UNNAMED | code::CANNOT_CHECK_YET => Remedy::Retry,
            // "temporarily unavailable": an election, a shutdown, a full queue.
            _ if self.code == 503 => Remedy::Retry,
            _ => Remedy::AskOperator,
        }
    }
}

impl std::fmt::Display for Refusal {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let hint = match self.err_code {
            code::NOT_ENABLED => "; start nats-server with JetStream (-js)",
            code::NOT_ENABLED_FOR_ACCOUNT => {
                "; enable JetStream for the account of these credentials"
            }
            code::MAXIMUM_CONSUMERS => "; raise max_consumers of the stream",
            _ => "",
        };
        write!(
            f,
            "the server refused: {} (error {}){hint}",
            self.description, self.err_code
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_in_the_answer_is_a_refusal_with_its_code() {
        let answer =
            br#"{"type":"x","error":{"code":400,"err_code":10071,"description":"wrong last sequence: 3"}}"#;
        let error = read::<PubAck>("s", answer).unwrap_err();
        assert_eq!(error.code(), Some(10071));
        assert_eq!(error.remedy(), Remedy::Observe);
    }

    #[test]
    fn an_answer_that_is_not_understood_says_where_it_came_from() {
        let error = read::<PubAck>("$JS.API.X", b"hello").unwrap_err();
        assert!(error.to_string().contains("$JS.API.X"), "{error}");
    }
}
