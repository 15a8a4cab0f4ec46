//! Names and numbers of the protocol. Numbers that must not be mixed are different types.

use std::fmt;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

/// The longest group name: what is left of a label after suffixes that Kubernetes objects need.
pub const MAX_GROUP_NAME: usize = 40;

/// The longest namespace: one DNS label.
pub const MAX_NAMESPACE: usize = 63;

/// Why a name was refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InvalidName {
    what: &'static str,
    given: String,
    longest: usize,
}

/// A group's name: one DNS label of at most 40 characters.
///
/// Held as proof: a label has no `_`, so `lockstep_<namespace>_<name>` names one bucket only.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String")]
pub struct GroupName(Arc<str>);

/// A namespace: one DNS label of at most 63 characters.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String")]
pub struct Namespace(Arc<str>);

/// A group by its full name; written `namespace/name`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct GroupRef {
    /// Where the group lives; `default` without Kubernetes unless the manifest says otherwise.
    pub namespace: Namespace,
    /// Its name within the namespace.
    pub name: GroupName,
}

/// A member's label for people and for stickiness: a pod's name, or what `--member-id` says.
///
/// It identifies nobody: the [`Incarnation`] is the member.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct MemberId(Arc<str>);

/// One life of one process: random per start, one writer for its key for ever.
///
/// Holds 1 to 64 characters of `[a-z0-9]`, so that it is one token of a subject.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String")]
pub struct Incarnation(Arc<str>);

/// A bucket's random identity: another one under the same name is another bucket.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct BucketId(Arc<str>);

/// A partition's number, 0 to `partitions - 1`.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
#[serde(transparent)]
pub struct Partition(pub u32);

macro_rules! number {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(
            Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
        )]
        #[serde(transparent)]
        pub struct $name(pub u64);

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.0.fmt(f)
            }
        }
    };
}

number! {
    /// Who may coordinate: rises by one with each take-over. A lower term never writes again.
    Term
}
number! {
    /// Edition of the group document: rises with each document whose content changes.
    GroupEpoch
}
number! {
    /// Counts the owners of one partition: rises exactly when the right to commit is granted.
    ///
    /// Zero is "never granted": the epoch of a seeded commit record.
    Epoch
}
number! {
    /// The server's number of one write into the bucket (a stream sequence of the bucket).
    Revision
}
number! {
    /// A message's sequence in its stream, from 1. As a position ("next"), 0 is never valid.
    Sequence
}
number! {
    /// A heartbeat's counter: a member is alive because it was seen to rise.
    Beat
}
number! {
    /// Edition of `meta`: rises with each change of the group's settings.
    MetaGeneration
}

// === impl InvalidName ===

impl fmt::Display for InvalidName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} {:?} is not valid; use 1 to {} characters of a-z, 0-9 and '-', not '-' at either end",
            self.what, self.given, self.longest
        )
    }
}

impl std::error::Error for InvalidName {}

fn label(what: &'static str, given: &str, longest: usize) -> Result<Arc<str>, InvalidName> {
    let fits = !given.is_empty() && given.len() <= longest;
    let chars = given
        .bytes()
        .all(|b| matches!(b, b'a'..=b'z' | b'0'..=b'9' | b'-'));
    if fits && chars && !given.starts_with('-') && !given.ends_with('-') {
        Ok(given.into())
    } else {
        Err(InvalidName {
            what,
            given: given.to_owned(),
            longest,
        })
    }
}

macro_rules! text {
    ($name:ident) => {
        impl $name {
            /// The name as text.
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }
    };
}

macro_rules! checked_text {
    ($name:ident, $what:literal, $check:expr) => {
        text!($name);

        impl TryFrom<String> for $name {
            type Error = InvalidName;
            fn try_from(given: String) -> Result<Self, InvalidName> {
                given.parse()
            }
        }

        impl std::str::FromStr for $name {
            type Err = InvalidName;
            fn from_str(given: &str) -> Result<Self, InvalidName> {
                let check: fn(&'static str, &str) -> Result<Arc<str>, InvalidName> = $check;
                check($what, given).map(Self)
            }
        }
    };
}

checked_text!(GroupName, "group name", |what, given| label(
    what,
    given,
    MAX_GROUP_NAME
));
checked_text!(Namespace, "namespace", |what, given| label(
    what,
    given,
    MAX_NAMESPACE
));
checked_text!(Incarnation, "incarnation", |what, given| {
    let chars = given
        .bytes()
        .all(|b| matches!(b, b'a'..=b'z' | b'0'..=b'9'));
    if chars {
        label(what, given, 64)
    } else {
        label(what, "_", 64)
    }
});
text!(MemberId);
text!(BucketId);

// === impl GroupRef ===

impl GroupRef {
    /// The bucket that holds this group's state: `<prefix>_<namespace>_<name>`.
    pub fn bucket_name(&self, prefix: &str) -> String {
        format!("{prefix}_{}_{}", self.namespace, self.name)
    }

    /// The group whose bucket has this name; none if it is no group's.
    pub fn of_bucket(bucket: &str, prefix: &str) -> Option<Self> {
        let rest = bucket.strip_prefix(prefix)?.strip_prefix('_')?;
        let (namespace, name) = rest.split_once('_')?;
        Some(Self {
            namespace: namespace.parse().ok()?,
            name: name.parse().ok()?,
        })
    }
}

impl fmt::Display for GroupRef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.namespace, self.name)
    }
}

/// Reads `[NAMESPACE/]NAME`; the namespace defaults to `default`.
impl std::str::FromStr for GroupRef {
    type Err = InvalidName;
    fn from_str(given: &str) -> Result<Self, InvalidName> {
        let (namespace, name) = given.split_once('/').unwrap_or(("default", given));
        Ok(Self {
            namespace: namespace.parse()?,
            name: name.parse()?,
        })
    }
}

// === impl MemberId ===

impl MemberId {
    /// A label; any text, since it identifies nobody.
    pub fn new(id: impl Into<Arc<str>>) -> Self {
        Self(id.into())
    }
}

// === impl BucketId ===

impl BucketId {
    /// An identity drawn by whoever creates the bucket.
    pub fn new(id: impl Into<Arc<str>>) -> Self {
        Self(id.into())
    }
}

// === impl Partition ===

impl Partition {
    /// The partition as an index into a list of all partitions.
    pub fn index(self) -> usize {
        self.0 as usize
    }

    /// All partitions of a group that has this many.
    pub fn all(count: u32) -> impl Iterator<Item = Self> {
        (0..count).map(Self)
    }
}

impl fmt::Display for Partition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

// === impl Term ===

impl Term {
    /// The term of who takes over from this one.
    #[must_use]
    pub fn of_the_successor(self) -> Self {
        Self(self.0 + 1)
    }
}

// === impl GroupEpoch ===

impl GroupEpoch {
    /// The epoch of the next document that says something else.
    #[must_use]
    pub fn next(self) -> Self {
        Self(self.0 + 1)
    }
}

// === impl Epoch ===

impl Epoch {
    /// The epoch of the next grant.
    #[must_use]
    pub fn of_the_next_owner(self) -> Self {
        Self(self.0 + 1)
    }

    /// Whether a record at `on_record` shuts out a writer at this epoch.
    pub fn is_fenced_by(self, on_record: Self) -> bool {
        self < on_record
    }
}

// === impl Sequence ===

impl Sequence {
    /// The first sequence that a stream can hold.
    pub const FIRST: Self = Self(1);

    /// The position after this message.
    #[must_use]
    pub fn next(self) -> Self {
        Self(self.0 + 1)
    }

    /// The message before this position, if there can be one.
    pub fn before(self) -> Option<Self> {
        self.0.checked_sub(1).filter(|s| *s > 0).map(Self)
    }
}

// === impl Beat ===

impl Beat {
    /// The next heartbeat's counter.
    #[must_use]
    pub fn next(self) -> Self {
        Self(self.0 + 1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_group_is_written_with_or_without_its_namespace() {
        let short: GroupRef = "orders".parse().unwrap();
        let long: GroupRef = "shop/orders".parse().unwrap();
        assert_eq!(short.to_string(), "default/orders");
        assert_eq!(long.bucket_name("lockstep"), "lockstep_shop_orders");
    }

    #[test]
    fn names_that_could_be_ambiguous_in_a_bucket_are_refused() {
        for wrong in ["", "a_b", "A", "-a", "a-", "a.b", "a/b/c", &"x".repeat(41)] {
            assert!(wrong.parse::<GroupRef>().is_err(), "{wrong:?} was taken");
        }
    }

    #[test]
    fn an_incarnation_is_one_token_of_a_subject() {
        assert!("k3v9".parse::<Incarnation>().is_ok());
        for wrong in ["", "a.b", "a-b", "*", ">", "A"] {
            assert!(wrong.parse::<Incarnation>().is_err(), "{wrong:?} was taken");
        }
    }

    #[test]
    fn a_bucket_is_a_groups_only_if_its_name_has_the_three_parts() {
        let group: GroupRef = "shop/orders".parse().unwrap();
        assert_eq!(
            GroupRef::of_bucket("lockstep_shop_orders", "lockstep"),
            Some(group)
        );
        for other in [
            "lockstep_shop",
            "lockstep_shop_or_ders",
            "other_shop_orders",
            "lockstep__o",
        ] {
            assert_eq!(GroupRef::of_bucket(other, "lockstep"), None, "{other}");
        }
    }
}
