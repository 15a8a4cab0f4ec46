//! Streams that hold messages: what they are, and what is in them.

mod count;
mod facts;
mod make;
mod read;

pub use count::count_from;
pub use facts::{SourceFacts, StreamFacts, StreamRefusal, StreamWarning};
pub use make::{SourcePlan, StreamChange, StreamOwner, StreamPlan, create, delete, update};
pub(crate) use read::RawMessage;
pub use read::{
    MessageFacts, first_at_or_after, first_from, info, message_at, names, subject_counts,
    taken_over_up_to,
};

use super::api::{ApiError, Remedy};

/// Why a stream could not be looked at or made.
#[derive(Debug, thiserror::Error)]
pub enum StreamError {
    /// It is not there.
    #[error("the stream {stream} does not exist")]
    Missing {
        /// Its name.
        stream: String,
    },
    /// Its name or its subjects are taken.
    #[error("the stream {stream} cannot be made: {text}")]
    Taken {
        /// Its name.
        stream: String,
        /// The server's words.
        text: String,
    },
    /// The server did not do it, or did not say.
    #[error("stream {stream}: {source}")]
    Api {
        /// Its name.
        stream: String,
        /// What happened.
        source: ApiError,
    },
}

// === impl StreamError ===

impl StreamError {
    /// What this calls for.
    pub fn remedy(&self) -> Remedy {
        match self {
            Self::Missing { .. } | Self::Taken { .. } => Remedy::AskOperator,
            Self::Api { source, .. } => source.remedy(),
        }
    }

    fn of(stream: &str, error: ApiError) -> Self {
        use super::api::code;
        let stream = stream.to_owned();
        match error.code() {
            Some(code::STREAM_NOT_FOUND) => Self::Missing { stream },
            Some(code::STREAM_EXISTS | code::SUBJECTS_OVERLAP) => Self::Taken {
                stream,
                text: error.to_string(),
            },
            Some(_) | None => Self::Api {
                stream,
                source: error,
            },
        }
    }
}
