//! Finding the group's bucket, and watching what concerns this member in it.

use std::time::Duration;

use tokio_util::sync::CancellationToken;

use crate::backoff::Backoff;
use crate::chance;
use crate::group::Incarnation;
use crate::nats::{
    Bucket, BucketError, Connection, Entry, EntryValue, KeyFilter, Standing, WatchEvent,
};
use crate::wire;
use crate::wire::keys::Key;

use super::inbox::{Inbox, Incoming};

/// How long a server may take to answer before its silence is worth a word.
const MOMENT: Duration = Duration::from_secs(1);

/// Waits until the bucket is there, then passes on what its watch says, until told to stop.
pub(super) async fn watch_over(
    connection: Connection,
    bucket: String,
    me: Incarnation,
    inbox: Inbox,
    stopping: CancellationToken,
) {
    let watching = async {
        let bucket = found(&connection, &bucket, &inbox).await;
        inbox.say(Incoming::Bucket(Box::new(bucket.clone()))).await;
        let mut watch = bucket.watch(&KeyFilter::of_a_member(&me));
        while let Some(event) = watch.next().await {
            match event {
                WatchEvent::Entry(entry) => pass_on(entry, &inbox).await,
                WatchEvent::Loaded => inbox.say(Incoming::Trouble(None)).await,
                WatchEvent::Restarted { why } => {
                    tracing::debug!(why, "the watch begins anew");
                }
                WatchEvent::Gone { why } => inbox.say(Incoming::Trouble(Some(why))).await,
            }
        }
    };
    tokio::select! {
        () = watching => {}
        () = stopping.cancelled() => {}
    }
}

/// Waits for the server and for the bucket, saying why.
async fn found(connection: &Connection, name: &str, inbox: &Inbox) -> Bucket {
    let mut backoff = Backoff::doubling(Duration::from_millis(100), Duration::from_secs(2));
    let mut said = String::new();
    loop {
        reached(connection, inbox).await;
        let trouble = match connection.check_version().await {
            Err(error) => error.to_string(),
            Ok(()) => match Bucket::open(connection, name).await {
                Ok((bucket, _)) => return bucket,
                Err(error) => sentence(&error),
            },
        };
        if trouble != said {
            tracing::warn!(trouble, "waiting for the group's bucket");
            said.clone_from(&trouble);
        }
        inbox.say(Incoming::Trouble(Some(trouble))).await;
        tokio::time::sleep(backoff.next(chance::fraction())).await;
    }
}

/// Waits for a server, saying so when none answers within a moment.
async fn reached(connection: &Connection, inbox: &Inbox) {
    if tokio::time::timeout(MOMENT, connection.up()).await.is_ok() {
        return;
    }
    let mut said = String::new();
    let saying = async {
        loop {
            let trouble = silence(&connection.standing());
            if said.is_empty() {
                tracing::warn!(trouble, "waiting for NATS");
            }
            if trouble != said {
                said.clone_from(&trouble);
                inbox.say(Incoming::Trouble(Some(trouble))).await;
            }
            tokio::time::sleep(MOMENT).await;
        }
    };
    tokio::select! {
        () = connection.up() => {}
        () = saying => {}
    }
}

fn silence(standing: &Standing) -> String {
    let why = match standing {
        Standing::Down { why: Some(why) } => format!(" ({why})"),
        Standing::Down { why: None } | Standing::Up => String::new(),
    };
    format!("NATS is not reached{why}; start it, or correct its addresses and credentials")
}

fn sentence(error: &BucketError) -> String {
    match error {
        BucketError::Missing { .. } => format!(
            "{error}; start a coordinator with --create and the group's manifest, or check \
             --group and --bucket-prefix"
        ),
        BucketError::Taken { .. } | BucketError::Api { .. } => error.to_string(),
    }
}

async fn pass_on(entry: Entry, inbox: &Inbox) {
    let revision = entry.revision;
    let said = match (entry.key, entry.value) {
        (Key::Meta, EntryValue::Put(bytes)) => match wire::meta::decode(&bytes) {
            Ok(meta) => Incoming::Meta(revision, Box::new(meta)),
            Err(error) => Incoming::Damaged("meta", error.to_string()),
        },
        (Key::Group, EntryValue::Put(bytes)) => match wire::group::decode(&bytes) {
            Ok(document) => Incoming::Group(revision, Box::new(document)),
            Err(error) => Incoming::Damaged("group", error.to_string()),
        },
        (Key::Member(_), EntryValue::Put(bytes)) => match wire::member::decode(&bytes) {
            Ok(document) => Incoming::Echo(revision, document.beat),
            Err(error) => {
                tracing::debug!(%error, "an own heartbeat that cannot be read");
                return;
            }
        },
        (Key::Meta, EntryValue::Marker) => {
            Incoming::Damaged("meta", "somebody deleted the key meta".to_owned())
        }
        (Key::Group, EntryValue::Marker) => {
            Incoming::Damaged("group", "somebody deleted the key group".to_owned())
        }
        (
            Key::Member(_) | Key::Offset(_) | Key::Candidate(_) | Key::Reset(_) | Key::Foreign(_),
            _,
        ) => return,
    };
    inbox.say(said).await;
}
