//! `lockstep group delete`: the group's state and, unless told otherwise, the streams made for it.

use std::collections::BTreeSet;

use clap::Args;

use super::change::refuse_if_managed;
use super::read::{self, Reading};
use crate::cli::{CommonFlags, Failure, Runs, output, server};
use crate::group::describe::{MemberWord, Seen, view};
use crate::group::{GroupRef, Source};
use crate::nats::{Bucket, Connection, streams};

/// Delete a group: its offsets, and the streams that Lockstep made for it
#[derive(Args, Debug)]
#[command(
    after_help = "Streams that Lockstep did not make, and streams that another group reads, stay. \
                  So does everything while members are running.\n\
                  Example: lockstep group delete shop/orders --keep-stream"
)]
pub(super) struct Flags {
    /// The group, [NAMESPACE/]NAME
    #[arg(value_name = "NAME")]
    group: GroupRef,
    /// Keep the streams and their messages
    #[arg(long, env = "LOCKSTEP_KEEP_STREAM")]
    keep_stream: bool,
    #[command(flatten)]
    common: CommonFlags,
}

// === impl Flags ===

impl Flags {
    pub(super) async fn run(&self) -> Result<(), Failure> {
        self.common.start_logging(Runs::Once)?;
        let connection = server::reach(&self.common).await?;
        let bucket = read::open(&connection, &self.group, &self.common).await?;
        let streams = match read::group(&connection, &bucket, &self.group).await? {
            Reading::Group(seen) => {
                refuse_if_managed(&seen.meta, &self.group, "delete the ConsumerGroup object")?;
                self.refuse_while_members_run(&seen)?;
                self.streams_to_delete(&connection, &seen).await?
            }
            // Nothing can be said of its streams: they stay.
            Reading::Damaged(_) => BTreeSet::new(),
        };
        let deleted = bucket.delete().await;
        deleted.map_err(|e| Failure::of(&e).while_doing("nothing was deleted"))?;
        output::line(format_args!("group {} is deleted", self.group))?;
        for stream in streams {
            let deleted = streams::delete(&connection, &stream).await;
            deleted.map_err(|e| {
                let what = format!("the group is deleted, its stream {stream} is not");
                Failure::of(&e).while_doing(what)
            })?;
            output::line(format_args!("stream {stream} is deleted"))?;
        }
        Ok(())
    }

    fn refuse_while_members_run(&self, seen: &Seen) -> Result<(), Failure> {
        let gone = [MemberWord::Left, MemberWord::Silent];
        let rows = view(seen).member_rows;
        let ids: Vec<&str> = rows
            .iter()
            .filter(|m| !gone.contains(&m.state))
            .map(|m| m.id.as_str())
            .collect();
        if ids.is_empty() {
            return Ok(());
        }
        Err(Failure::failed(format!(
            "group {} has running members ({}); stop them first, nothing was deleted",
            self.group,
            ids.join(", ")
        )))
    }

    /// The streams that Lockstep made for this group and that no other group reads.
    async fn streams_to_delete(
        &self,
        connection: &Connection,
        seen: &Seen,
    ) -> Result<BTreeSet<String>, Failure> {
        let made = made_for(&seen.meta.source);
        if self.keep_stream || made.is_empty() {
            return Ok(BTreeSet::new());
        }
        let prefix = self.common.bucket_prefix();
        let names = Bucket::names(connection, prefix).await;
        let names = names.map_err(|e| Failure::of(&e).while_doing("nothing was deleted"))?;
        let groups = names
            .iter()
            .filter_map(|name| GroupRef::of_bucket(name, prefix));
        let mut streams = made;
        for other in groups.filter(|g| *g != self.group) {
            let meta = read::meta_of(connection, &other, &self.common).await;
            let meta = meta.map_err(|e| {
                e.while_doing("nothing was deleted, since another group may read the same stream")
            })?;
            let read = meta.source.streams();
            for shared in streams.intersection(&read) {
                output::say(format_args!(
                    "stream {shared} stays: group {other} reads it"
                ));
            }
            streams = &streams - &read;
        }
        Ok(streams)
    }
}

fn made_for(source: &Source) -> BTreeSet<String> {
    match source {
        Source::Stream {
            transform: Some(_), ..
        } => source.streams(),
        Source::Streams { subjects, .. } if !subjects.is_empty() => source.streams(),
        Source::Stream {
            transform: None, ..
        }
        | Source::Streams { .. }
        | Source::List(_) => BTreeSet::new(),
    }
}
