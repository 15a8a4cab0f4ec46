//! Asking a stream what is needed to judge a position.

use super::connect::Connection;
use super::streams::{self, StreamError, StreamFacts};
use crate::group::validity::{Believed, Found, Validity};
use crate::group::{Mark, Sequence, ServerTime};

/// Judges a position by the stream as it is now. An error says nothing about the position: no
/// policy may act on it.
pub async fn validity(
    connection: &Connection,
    stream: &str,
    believed: &Believed,
) -> Result<(Validity, StreamFacts), StreamError> {
    let facts = streams::info(connection, stream).await?;
    let found = Found {
        created: facts.created,
        first: facts.first,
        last: facts.last,
        at_mark: stored_at(connection, stream, believed.mark).await?,
        at_delivered: stored_at(connection, stream, believed.delivered).await?,
    };
    Ok((believed.check(&found), facts))
}

/// A message by which the position "everything up to `scanned_to` was looked at" can be
/// recognised later; none if there is none at hand.
///
/// What a consumer says it has looked through can lie above the stream's end, so it is bounded
/// by the stream itself. The message need not belong to the partition.
pub async fn mark_of_idle_position(
    connection: &Connection,
    stream: &str,
    scanned_to: Sequence,
) -> Result<Option<Mark>, StreamError> {
    let facts = streams::info(connection, stream).await?;
    let at = scanned_to.min(facts.last);
    let message = streams::message_at(connection, stream, at).await?;
    Ok(message.map(|message| Mark {
        seq: message.sequence,
        ts: message.timestamp,
    }))
}

async fn stored_at(
    connection: &Connection,
    stream: &str,
    mark: Option<Mark>,
) -> Result<Option<ServerTime>, StreamError> {
    let Some(mark) = mark else {
        return Ok(None);
    };
    let message = streams::message_at(connection, stream, mark.seq).await?;
    Ok(message.map(|message| message.timestamp))
}
