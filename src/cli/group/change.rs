//! Changing what a group is: compare-and-set of `meta`, one generation at a time.

use std::time::Duration;

use super::read;
use crate::cli::Failure;
use crate::coordinator::provision::KUBERNETES;
use crate::group::{GroupRef, Meta, MetaGeneration};
use crate::nats::{Bucket, CasOutcome};
use crate::wire::{self, keys::Key};

/// How often a change is tried when others write at the same time, or the server does not say.
const TRIES: u32 = 10;
/// The wait between two tries.
const BETWEEN_TRIES: Duration = Duration::from_millis(100);

/// What became of a change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Changed {
    /// It is in force, from this generation on.
    To(MetaGeneration),
    /// The group was already as it should be: nothing was written.
    Not,
}

/// Writes what `edit` makes of the group's description, as its next generation.
///
/// `edit` is asked again for each try, with what stands there by then. A write whose outcome is
/// unknown is looked up: the same content at the generation that we meant is ours.
pub(super) async fn change(
    bucket: &Bucket,
    group: &GroupRef,
    edit: impl AsyncFn(&Meta) -> Result<Meta, Failure>,
) -> Result<Changed, Failure> {
    let mut meant: Option<Meta> = None;
    let mut last = String::new();
    for _ in 0..TRIES {
        let (meta, entry) = read::meta(bucket, group).await?;
        if meant.as_ref() == Some(&meta) {
            return Ok(Changed::To(meta.generation));
        }
        let mut wanted = edit(&meta).await?;
        if wanted == meta {
            return Ok(Changed::Not);
        }
        wanted.generation = MetaGeneration(meta.generation.0 + 1);
        let bytes = wire::meta::encode(&wanted).map_err(|e| Failure::of(&e))?;
        match bucket
            .replace(&Key::Meta, bytes.into(), entry.revision)
            .await
        {
            CasOutcome::Stored(_) => return Ok(Changed::To(wanted.generation)),
            CasOutcome::Refused { text, .. } => return Err(Failure::failed(refused(group, &text))),
            CasOutcome::Conflict { .. } => "somebody else writes to it".clone_into(&mut last),
            CasOutcome::Busy => "its leader is busy".clone_into(&mut last),
            CasOutcome::Unknown { why } => {
                meant = Some(wanted);
                last = why;
            }
        }
        tokio::time::sleep(BETWEEN_TRIES).await;
    }
    Err(Failure::failed(format!(
        "the description of group {group} was not changed in {TRIES} tries ({last}); try again"
    )))
}

fn refused(group: &GroupRef, text: &str) -> String {
    format!(
        "the server refused the change of group {group}: {text}; \
         these credentials may lack the permission to write to its bucket"
    )
}

/// Whether an object in Kubernetes says what the group is.
pub(super) fn is_managed(meta: &Meta) -> bool {
    meta.manager.starts_with(KUBERNETES)
}

/// Refuses to change a group whose description belongs to somebody else.
pub(super) fn refuse_if_managed(
    meta: &Meta,
    group: &GroupRef,
    instead: &str,
) -> Result<(), Failure> {
    if !is_managed(meta) {
        return Ok(());
    }
    Err(Failure::failed(format!(
        "group {group} is managed by {}: its object says what it is, and would overrule a change \
         made here; {instead}",
        meta.manager
    )))
}
