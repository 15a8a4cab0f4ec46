//! A part of a state that knows its own fingerprint.

use std::fmt::{self, Debug, Write};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::ops::Deref;
use std::sync::{Arc, OnceLock};

/// A value that is shared between states and hashed once. Its fingerprint is that of its debug text,
/// which shows every field: the core's types need not be hashable for it.
#[derive(Clone)]
pub(crate) struct Hashed<T>(Arc<Inner<T>>);

#[derive(Clone)]
struct Inner<T> {
    value: T,
    fingerprint: OnceLock<u64>,
}

/// Hashes text as it is written.
struct Sink(DefaultHasher);

// === impl Sink ===

impl Write for Sink {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        self.0.write(text.as_bytes());
        Ok(())
    }
}

// === impl Hashed ===

impl<T: Debug + Clone> Hashed<T> {
    pub(crate) fn new(value: T) -> Self {
        let fingerprint = OnceLock::new();
        Self(Arc::new(Inner { value, fingerprint }))
    }

    /// Another value in its place; other states keep what they have.
    pub(crate) fn change<R>(&mut self, change: impl FnOnce(&mut T) -> R) -> R {
        let inner = Arc::make_mut(&mut self.0);
        inner.fingerprint = OnceLock::new();
        change(&mut inner.value)
    }

    fn fingerprint(&self) -> u64 {
        *self.0.fingerprint.get_or_init(|| {
            let mut sink = Sink(DefaultHasher::new());
            match write!(sink, "{:?}", self.0.value) {
                Ok(()) | Err(fmt::Error) => sink.0.finish(), // a sink takes everything
            }
        })
    }
}

impl<T> Deref for Hashed<T> {
    type Target = T;
    fn deref(&self) -> &T {
        &self.0.value
    }
}

impl<T: Debug + Clone> Hash for Hashed<T> {
    fn hash<H: Hasher>(&self, state: &mut H) {
        state.write_u64(self.fingerprint());
    }
}

impl<T: Debug + Clone> PartialEq for Hashed<T> {
    fn eq(&self, other: &Self) -> bool {
        self.fingerprint() == other.fingerprint()
    }
}

impl<T: Debug> Debug for Hashed<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.value.fmt(f)
    }
}
