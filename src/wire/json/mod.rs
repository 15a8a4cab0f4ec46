//! The worker service's messages as JSON: the second encoding of `worker.proto`.
//!
//! Field names are those of the protobuf messages. Sequences are numbers, durations strings
//! (`"250ms"`), times RFC 3339 with nanoseconds, payloads base64 or, where the request asks for it,
//! text. Requests are read strictly: an unknown, missing or wrong field is refused by its name.

mod answers;
mod error;
mod requests;
#[cfg(test)]
mod tests;
mod values;

pub use answers::{ack, drain, event, fetch, nack, nothing, problem, publish, status};
pub use error::JsonError;
pub use requests::{
    ack_request, drain_request, fetch_request, nack_request, pause_request, publish_request,
    resume_request,
};
pub use values::{InvalidDuration, parse_duration, time_text};
