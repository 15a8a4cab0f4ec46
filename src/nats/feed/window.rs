//! Credit: how much may be in a reader's hands. Backpressure is not pulling.

use std::sync::atomic::{AtomicI64, Ordering};

use tokio::sync::Notify;

use super::pulls::Room;

/// The credit of one reader, shared with who gives it back.
#[derive(Debug)]
pub(crate) struct Window {
    messages: AtomicI64,
    bytes: AtomicI64,
    most_messages: i64,
    most_bytes: i64,
    more: Notify,
}

// === impl Window ===

impl Window {
    pub(crate) fn new(messages: u32, bytes: u64) -> Self {
        let (messages, bytes) = (i64::from(messages), signed(bytes));
        Self {
            messages: messages.into(),
            bytes: bytes.into(),
            most_messages: messages,
            most_bytes: bytes,
            more: Notify::new(),
        }
    }

    pub(super) fn room(&self) -> Room {
        Room {
            messages: self.messages.load(Ordering::Relaxed),
            bytes: self.bytes.load(Ordering::Relaxed),
            window_messages: self.most_messages,
            window_bytes: self.most_bytes,
        }
    }

    pub(super) fn take(&self, messages: usize, bytes: u64) {
        let messages = i64::try_from(messages).unwrap_or(i64::MAX);
        self.messages.fetch_sub(messages, Ordering::Relaxed);
        self.bytes.fetch_sub(signed(bytes), Ordering::Relaxed);
    }

    pub(crate) fn give_back(&self, messages: u64, bytes: u64) {
        self.messages.fetch_add(signed(messages), Ordering::Relaxed);
        self.bytes.fetch_add(signed(bytes), Ordering::Relaxed);
        self.more.notify_one();
    }

    pub(super) async fn more(&self) {
        self.more.notified().await;
    }
}

fn signed(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}
