//! `lockstep publish`: keyed messages, into the partition of their key.

use std::io::{self, BufRead, Read};
use std::path::{Path, PathBuf};

use bytes::Bytes;
use clap::{Args, ValueEnum};
use serde_json::json;

use super::{CommonFlags, Failure, Runs, group, output, server};
use crate::group::partitioning::{self, Address, Key};
use crate::group::{GroupRef, Sequence};
use crate::nats::{Connection, Outgoing, PublishOutcome, publish};

/// Publish messages of a key
#[derive(Args, Debug)]
#[command(
    group(clap::ArgGroup::new("what").required(true).args(["data", "file", "lines"])),
    after_help = "Prints partition, sequence and duplicate of each message. With --lines the ids are ID-1, ID-2, ...:\n\
                  the same call again publishes nothing twice within the stream's duplicate window.\n\
                  Example: lockstep publish orders --key customer-42 --data '{\"amount\": 5}'"
)]
pub(super) struct Flags {
    /// The group, [NAMESPACE/]NAME
    #[arg(value_name = "NAME")]
    group: GroupRef,
    /// The key: tokens separated by dots
    #[arg(long, env = "LOCKSTEP_KEY", value_name = "KEY")]
    key: Key,
    /// Identity: a second message of this id is not stored
    #[arg(long, env = "LOCKSTEP_ID", value_name = "ID")]
    id: Option<String>,
    /// Header; several allowed
    #[arg(long, env = "LOCKSTEP_HEADER", value_name = "NAME=VALUE", value_parser = parse_header)]
    header: Vec<(String, String)>,
    /// One message: this text
    #[arg(long, env = "LOCKSTEP_DATA", value_name = "TEXT")]
    data: Option<String>,
    /// One message: a file's content; - for standard input
    #[arg(long, env = "LOCKSTEP_FILE", value_name = "FILE")]
    file: Option<PathBuf>,
    /// A message per line of standard input
    #[arg(long, env = "LOCKSTEP_LINES")]
    lines: bool,
    /// How to print
    #[arg(short, long, env = "LOCKSTEP_OUTPUT", value_enum, value_name = "FORMAT",
          default_value_t = Format::Text)]
    output: Format,
    #[command(flatten)]
    common: CommonFlags,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Format {
    Text,
    Json,
}

/// What is to be published.
enum What {
    Message(Bytes),
    LinesOfInput,
}

/// A message that is in its stream.
struct Stored {
    stream: String,
    sequence: Sequence,
    duplicate: bool,
}

fn parse_header(given: &str) -> Result<(String, String), String> {
    match given.split_once('=') {
        Some((name, value)) if !name.is_empty() => Ok((name.to_owned(), value.to_owned())),
        _ => Err("write it as NAME=VALUE".to_owned()),
    }
}

// === impl Flags ===

impl Flags {
    pub(super) async fn run(&self) -> Result<(), Failure> {
        let what = self.what()?;
        self.common.start_logging(Runs::Once)?;
        let connection = server::reach(&self.common).await?;
        let meta = group::meta_of(&connection, &self.group, &self.common).await?;
        let address = partitioning::address(&meta.source, &self.key).map_err(Failure::usage)?;
        match what {
            What::Message(payload) => {
                self.publish(&connection, &address, payload, self.id.clone())
                    .await
            }
            What::LinesOfInput => self.publish_lines(&connection, &address).await,
        }
    }

    fn what(&self) -> Result<What, Failure> {
        match (&self.data, &self.file) {
            (Some(text), _) => Ok(What::Message(text.clone().into())),
            (None, Some(path)) => Ok(What::Message(read(path)?)),
            (None, None) if self.lines => Ok(What::LinesOfInput),
            // The variable said no.
            (None, None) => Err(Failure::usage(
                "nothing to publish is given; use --data, --file or --lines",
            )),
        }
    }

    /// One after the other, each acknowledged before the next: a failure in the middle leaves no
    /// hole and changes no order.
    async fn publish_lines(
        &self,
        connection: &Connection,
        address: &Address,
    ) -> Result<(), Failure> {
        for (number, line) in (1_u64..).zip(io::stdin().lock().split(b'\n')) {
            let unreadable = |e| Failure::failed(format!("line {number} cannot be read: {e}"));
            let mut line = line.map_err(unreadable)?;
            if line.last() == Some(&b'\r') {
                line.pop();
            }
            let id = self.id.as_ref().map(|id| format!("{id}-{number}"));
            let published = self.publish(connection, address, line.into(), id).await;
            published.map_err(|e| e.while_doing(format!("line {number}")))?;
        }
        Ok(())
    }

    async fn publish(
        &self,
        connection: &Connection,
        address: &Address,
        payload: Bytes,
        id: Option<String>,
    ) -> Result<(), Failure> {
        let message = Outgoing {
            subject: address.subject.clone(),
            headers: self.header.clone(),
            payload,
            id,
        };
        let stored = stored(publish(connection, message).await, address)?;
        let (partition, sequence) = (address.partition, stored.sequence);
        let Stored {
            stream, duplicate, ..
        } = stored;
        output::line(match self.output {
            Format::Text => {
                format!("partition={partition} sequence={sequence} duplicate={duplicate}")
            }
            Format::Json => json!({
                "partition": partition.0,
                "stream": stream,
                "sequence": sequence.0,
                "duplicate": duplicate,
            })
            .to_string(),
        })
    }
}

fn read(path: &Path) -> Result<Bytes, Failure> {
    let content = if path == Path::new("-") {
        let mut content = Vec::new();
        io::stdin()
            .lock()
            .read_to_end(&mut content)
            .map(|_| content)
    } else {
        std::fs::read(path)
    };
    let content = content.map(Bytes::from);
    content.map_err(|e| {
        Failure::usage(format!(
            "--file {}: {e}; name a readable file",
            path.display()
        ))
    })
}

fn stored(outcome: PublishOutcome, address: &Address) -> Result<Stored, Failure> {
    let Address {
        stream: expected,
        subject,
        ..
    } = address;
    match outcome {
        PublishOutcome::Stored {
            stream,
            sequence,
            duplicate,
        } if stream == *expected => Ok(Stored {
            stream,
            sequence,
            duplicate,
        }),
        PublishOutcome::Stored {
            stream, sequence, ..
        } => Err(Failure::failed(format!(
            "the message was stored in stream {stream} (sequence {sequence}), which the group does \
             not read: {subject} belongs to that stream and not to {expected}; correct the subjects"
        ))),
        PublishOutcome::Unknown { why } => Err(Failure::failed(format!(
            "whether the message is stored is not known ({why}); publishing it again is safe \
             with --id"
        ))),
        PublishOutcome::NoStream { subject } => Err(Failure::failed(format!(
            "no stream takes {subject} (stream {expected} is missing, has other subjects, or has \
             no leader at the moment); nothing was published"
        ))),
        PublishOutcome::TooLarge { size, limit } => Err(Failure::failed(format!(
            "the message has {size} bytes, the server takes {limit} (max_payload); \
             nothing was published"
        ))),
        PublishOutcome::Invalid { sentence } => Err(Failure::usage(sentence)),
        PublishOutcome::Refused { text, .. } => Err(Failure::failed(format!(
            "stream {expected} refused the message: {text}; nothing was published"
        ))),
    }
}
