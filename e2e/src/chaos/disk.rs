//! Small disks for servers: a tmpfs each, in a mount namespace that one process keeps.
//!
//! The mounts are seen only by what enters the namespace, and are gone with the process that
//! keeps it. It needs root.

use std::fs::File;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use crate::children::{self, Child};
use crate::nats_server::{NatsServer, Options};
use crate::until::until_sync;

/// The size of each; a server with three replicated streams of a scene uses a fraction.
const MEGABYTES: u32 = 64;

/// A namespace with small disks.
#[derive(Debug)]
pub struct Disks {
    keeper: Child,
    places: Vec<PathBuf>,
}

/// Whether this machine lets us mount; the reason if not.
pub fn possible() -> Result<(), String> {
    let tried = Command::new("unshare").args(["-m", "true"]).output();
    match tried {
        Ok(tried) if tried.status.success() => Ok(()),
        Ok(tried) => Err(String::from_utf8_lossy(&tried.stderr).trim().to_owned()),
        Err(error) => Err(format!("unshare: {error}")),
    }
}

impl Disks {
    /// Mounts so many of them below a folder.
    pub async fn mount(folder: &Path, count: usize) -> io::Result<Self> {
        let places: Vec<PathBuf> = (0..count)
            .map(|index| folder.join(format!("disk-{index}")))
            .collect();
        let ready = folder.join("mounted");
        let mut script = Vec::new();
        for place in &places {
            std::fs::create_dir(place)?;
            script.push(format!(
                "mount -t tmpfs -o size={MEGABYTES}m lockstep '{}'",
                place.display()
            ));
        }
        script.push(format!("touch '{}'", ready.display()));
        script.push("exec sleep infinity".to_owned());
        let script = script.join(" && ");
        let mut command = Command::new("unshare");
        command.args(["-m", "sh", "-c", &script]);
        let mut keeper = children::start(command, &folder.join("disks.log"))?;
        let mounted = until_sync("mounted disks", Duration::from_secs(10), || {
            if ready.exists() {
                Ok(())
            } else if keeper.is_running() {
                Err("not yet".to_owned())
            } else {
                Err(keeper.tail())
            }
        });
        mounted.await.map_err(io::Error::other)?;
        Ok(Self { keeper, places })
    }

    /// What a server needs to live on the disk of this index.
    pub fn options(&self, index: usize) -> Options {
        NatsServer::options()
            .within(["nsenter", "-m", "-t", &self.keeper.pid().to_string()])
            .store(self.places[index].clone())
    }

    /// Fills it to the last byte.
    pub fn fill(&self, index: usize) -> io::Result<()> {
        let mut file = File::create(self.filler(index))?;
        let block = [0; 4096];
        loop {
            match file.write_all(&block) {
                Ok(()) => {}
                Err(error) if error.kind() == io::ErrorKind::StorageFull => return Ok(()),
                Err(error) => return Err(error),
            }
        }
    }

    /// Frees what [`Self::fill`] took.
    pub fn free(&self, index: usize) -> io::Result<()> {
        std::fs::remove_file(self.filler(index))
    }

    /// The file that fills a disk, seen from outside the namespace.
    fn filler(&self, index: usize) -> PathBuf {
        let inside = self.places[index].join("filler");
        let root = format!("/proc/{}/root", self.keeper.pid());
        Path::new(&root).join(inside.strip_prefix("/").unwrap_or(&inside))
    }
}
