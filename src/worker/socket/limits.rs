//! What the socket takes, and no more: stated here, enforced where it is read.

use std::time::Duration;

/// Largest body of an HTTP request and largest gRPC message. A payload of 8 MiB, the most that NATS
/// servers should be set to, fits in as base64.
pub const MAX_BODY: usize = 12 * 1024 * 1024;

/// How much of a larger body is read on and thrown away, so that its sender gets to see the answer.
pub const MAX_THROWN_AWAY: usize = 8 * MAX_BODY;

/// Connections at a time; further ones are answered 503 `too-many-connections` and closed.
pub const MAX_CONNECTIONS: usize = 256;

/// Connections that may be waiting for that answer; further ones are closed without.
pub const MAX_REFUSALS: usize = 32;

/// Calls at a time on one HTTP/2 connection; further ones wait.
pub const MAX_STREAMS: u32 = 128;

/// Messages in one answer to a fetch.
pub const MAX_FETCH_MESSAGES: u32 = 10_000;

/// Bytes of payloads and subjects in one answer to a fetch.
pub const MAX_FETCH_BYTES: u64 = 64 * 1024 * 1024;

/// The same, where a fetch does not say: fits into the 4 MiB that gRPC clients take by default.
pub const DEFAULT_FETCH_BYTES: u64 = 3 * 1024 * 1024;

/// How long a fetch may wait for its first message.
pub const MAX_FETCH_WAIT: Duration = Duration::from_secs(10 * 60);

/// How long a fetch may wait for more after it.
pub const MAX_BATCH_WAIT: Duration = Duration::from_secs(60);

/// Positions in one acknowledgement, and messages in one nack.
pub const MAX_POSITIONS: usize = 10_000;

/// Bytes of a nack's error that are kept; a longer one is cut.
pub const MAX_ERROR: usize = 1024;

/// How long a nack may put a message off.
pub const MAX_DELAY: Duration = Duration::from_secs(60 * 60);

/// How long a drain may wait for the application.
pub const MAX_DRAIN: Duration = Duration::from_secs(60 * 60);

/// The same, where a drain does not say.
pub const DEFAULT_DRAIN: Duration = Duration::from_secs(30);

/// Messages of credit that a stream may have.
pub const MAX_CREDIT_MESSAGES: u64 = 100_000;

/// Bytes of credit that a stream may have.
pub const MAX_CREDIT_BYTES: u64 = 1024 * 1024 * 1024;

/// Bytes of payloads and subjects in one batch of a stream, unless one message has more.
pub const MAX_BATCH_BYTES: u64 = 1024 * 1024;

/// Characters of a session's name.
pub const MAX_SESSION: usize = 128;

/// Bytes of a key, a subject or an id.
pub const MAX_NAME: usize = 1024;

/// Headers of one published message.
pub const MAX_HEADERS: usize = 256;

/// How long a connection may take to send a body, or a stream its first frame.
pub const PATIENCE: Duration = Duration::from_secs(30);

/// When to try again, where waiting helps.
pub const RETRY_AFTER: Duration = Duration::from_secs(1);
