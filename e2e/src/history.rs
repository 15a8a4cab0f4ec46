//! What happened, told by those who were there: one JSON object per line.
//!
//! Publishers write what the server acknowledged, applications what they were handed *before*
//! they acknowledge it, the auditor what stood in the group's bucket, and the script of a test
//! which events it caused. All times are [`crate::clock::boottime_ns`] of one machine.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, Write};
use std::path::Path;

use serde::{Deserialize, Serialize};

/// Nanoseconds since the machine started.
pub type At = u64;

/// One line of a history.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "what", rename_all = "snake_case")]
pub enum Record {
    /// The server acknowledged a message, the `n`th of its key.
    Published {
        /// The stream that stores it.
        stream: String,
        /// Its sequence there.
        sequence: u64,
        /// The partition of its key.
        partition: u32,
        /// Its key.
        key: String,
        /// Counts the messages of this key from 1.
        n: u64,
        /// When the acknowledgement came.
        at: At,
    },
    /// An application was handed a message. Written before it does anything with it.
    Seen {
        /// The member whose socket it reads.
        member: String,
        /// One life of the application's process.
        session: String,
        /// The partition.
        partition: u32,
        /// The fencing token that came with it.
        epoch: u64,
        /// The sequence in the stream.
        sequence: u64,
        /// The key, as the payload has it.
        key: String,
        /// The counter, as the payload has it.
        n: u64,
        /// Which attempt the worker called it.
        attempt: u32,
        /// When.
        at: At,
    },
    /// An application is about to acknowledge everything of a partition up to a sequence.
    Acking(Ack),
    /// The worker accepted this acknowledgement.
    Acked(Ack),
    /// The worker said that the partition is no longer owned at this epoch.
    Refused(Ack),
    /// An application gives a message back (written before it does).
    Nacking(Ack),
    /// A revision of `offset.<p>`.
    Commit {
        /// The partition.
        partition: u32,
        /// The fence on record.
        epoch: u64,
        /// The incarnation on record.
        owner: String,
        /// Everything below is done.
        next_seq: u64,
        /// The revision of the record: its sequence in the bucket.
        revision: u64,
        /// When the server stored it.
        at: At,
    },
    /// A revision of the group document gave a partition to an owner at a new epoch.
    Granted {
        /// The partition.
        partition: u32,
        /// The epoch that begins.
        epoch: u64,
        /// The incarnation that may commit.
        owner: String,
        /// Whether the former owner did not end it in good order.
        unclean: bool,
        /// The revision of the document.
        revision: u64,
        /// When the server stored it.
        at: At,
    },
    /// An incarnation and the name its worker was started with.
    Member {
        /// The incarnation.
        incarnation: String,
        /// The name.
        id: String,
    },
    /// The script did something.
    Event {
        /// What, in a few words.
        name: String,
        /// When.
        at: At,
    },
}

/// An acknowledgement, or its opposite.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Ack {
    /// The member whose socket is used.
    pub member: String,
    /// One life of the application's process.
    pub session: String,
    /// Counts the acknowledgements of a session; the answer carries the same number.
    pub ack: u64,
    /// The partition.
    pub partition: u32,
    /// The epoch that the message came with.
    pub epoch: u64,
    /// The sequence, with everything below it that this session was handed in this epoch.
    pub sequence: u64,
    /// When.
    pub at: At,
}

/// A file of records, each written at once: what a killed process wrote is there.
#[derive(Debug)]
pub struct Log {
    file: File,
}

// === impl Record ===

impl Record {
    /// When it happened, as far as it is a happening.
    pub fn at(&self) -> Option<At> {
        match self {
            Self::Published { at, .. }
            | Self::Seen { at, .. }
            | Self::Commit { at, .. }
            | Self::Granted { at, .. }
            | Self::Event { at, .. } => Some(*at),
            Self::Acking(ack) | Self::Acked(ack) | Self::Refused(ack) | Self::Nacking(ack) => {
                Some(ack.at)
            }
            Self::Member { .. } => None,
        }
    }
}

// === impl Log ===

impl Log {
    /// Opens a file to append to.
    pub fn open(path: &Path) -> io::Result<Self> {
        Ok(Self {
            file: File::options().create(true).append(true).open(path)?,
        })
    }

    /// Appends one record with a single write.
    pub fn write(&mut self, record: &Record) -> io::Result<()> {
        let mut line = serde_json::to_vec(record)?;
        line.push(b'\n');
        self.file.write_all(&line)
    }
}

/// Reads one file. A last line without its end was being written when its process died, and is
/// left out; any other line that cannot be read is an error.
pub fn read(path: &Path) -> io::Result<Vec<Record>> {
    let text = std::fs::read_to_string(path)?;
    let whole = text.rfind('\n').map_or("", |end| &text[..end]);
    let parse = |(number, line): (usize, &str)| {
        let odd = |error: serde_json::Error| {
            let place = format!("{}:{}: {error}: {line}", path.display(), number + 1);
            io::Error::new(io::ErrorKind::InvalidData, place)
        };
        serde_json::from_str(line).map_err(odd)
    };
    whole.lines().enumerate().map(parse).collect()
}

/// Reads every `.jsonl` file of a folder.
pub fn read_folder(folder: &Path) -> io::Result<Vec<Record>> {
    let mut records = Vec::new();
    for entry in std::fs::read_dir(folder)? {
        let path = entry?.path();
        if path
            .extension()
            .is_some_and(|extension| extension == "jsonl")
        {
            records.extend(read(&path)?);
        }
    }
    Ok(records)
}

/// Parts a history in two, where the sequences of a stream began to mean something else: what
/// happened until `ended`, and what came then. `second` was published into the second one. Who
/// owned what is part of both.
pub fn split(all: Vec<Record>, second: &[Record], ended: At) -> (Vec<Record>, Vec<Record>) {
    let (mut before, mut after) = (Vec::new(), second.to_vec());
    for record in all {
        match &record {
            Record::Published { .. } if second.contains(&record) => {}
            Record::Published { .. } => before.push(record),
            Record::Granted { .. } | Record::Member { .. } => {
                before.push(record.clone());
                after.push(record);
            }
            Record::Seen { at, .. } | Record::Commit { at, .. } | Record::Event { at, .. } => {
                if *at <= ended {
                    &mut before
                } else {
                    &mut after
                }
                .push(record);
            }
            Record::Acking(ack)
            | Record::Acked(ack)
            | Record::Refused(ack)
            | Record::Nacking(ack) => {
                if ack.at <= ended {
                    &mut before
                } else {
                    &mut after
                }
                .push(record);
            }
        }
    }
    (before, after)
}

/// The newest message of each partition that was published.
pub fn last_published(records: &[Record]) -> BTreeMap<u32, u64> {
    let published = records.iter().filter_map(|record| {
        let Record::Published {
            partition,
            sequence,
            ..
        } = record
        else {
            return None;
        };
        Some((*partition, *sequence))
    });
    published.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_torn_last_line_is_left_out_and_a_torn_middle_is_an_error() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.jsonl");
        let event = Record::Event {
            name: "x".to_owned(),
            at: 1,
        };
        Log::open(&path).unwrap().write(&event).unwrap();
        let whole = std::fs::read_to_string(&path).unwrap();

        std::fs::write(&path, format!("{whole}{{\"what\":\"ev")).unwrap();
        assert_eq!(read(&path).unwrap(), [event]);

        std::fs::write(&path, format!("{{\"what\":\"ev\n{whole}")).unwrap();
        assert!(read(&path).unwrap_err().to_string().contains("a.jsonl:1:"));
    }
}
