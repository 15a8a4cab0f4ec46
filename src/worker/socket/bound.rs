//! The socket's file: taken by one worker at a time, never found half made, replaced when stale.

use std::fs::{File, OpenOptions, Permissions};
use std::io::{self, Read, Seek, Write};
use std::os::unix::fs::{FileTypeExt, PermissionsExt};
use std::path::{Path, PathBuf};

use rustix::fs::{FlockOperation, flock};
use tokio::net::UnixListener;

/// The longest path that a socket's address holds.
const LONGEST_PATH: usize = 107;

/// What the socket is called until it listens.
const TEMPORARY: &str = ".new";

/// The lock file beside it. Never removed: whoever removes it could lock out nobody.
const LOCK: &str = ".lock";

/// Any user of the pod or machine that reaches the directory may connect.
const MODE: u32 = 0o666;

/// A socket that listens under its path; the path goes when this is dropped.
#[derive(Debug)]
pub struct Bound {
    listener: UnixListener,
    path: PathBuf,
    /// Held as proof that no other worker serves the path.
    _lock: File,
}

/// Why a socket could not be made.
#[derive(Debug, thiserror::Error)]
pub enum SocketError {
    /// Another worker is there.
    #[error(
        "{path:?} is served by another worker{holder}; stop it, or give this one another --socket"
    )]
    Served {
        /// The socket.
        path: PathBuf,
        /// ` (process N)`, or nothing if that is not known.
        holder: String,
    },
    /// Something else is there.
    #[error("{0:?} exists and is not a socket; remove it, or give another --socket")]
    NotASocket(PathBuf),
    /// No system takes it.
    #[error(
        "{path:?} is too long: a socket's path holds at most {limit} bytes; give a shorter one"
    )]
    TooLong {
        /// The socket.
        path: PathBuf,
        /// The longest that fits here.
        limit: usize,
    },
    /// It has no file name.
    #[error("{0:?} names no file; give the path of the socket to be made")]
    NoName(PathBuf),
    /// The system said no.
    #[error("cannot {action} {path:?}; the directory must exist and be writable")]
    Io {
        /// What was tried.
        action: &'static str,
        /// With which file.
        path: PathBuf,
        /// Why not.
        #[source]
        source: io::Error,
    },
}

// === impl Bound ===

impl Bound {
    /// Takes the path and listens: from then on connections wait for an answer.
    ///
    /// The socket is made under a temporary name and renamed, so whoever finds the path can
    /// connect. A socket that a dead worker left behind is replaced.
    pub fn bind(path: &Path) -> Result<Self, SocketError> {
        let temporary = temporary_name(path)?;
        let lock = take_lock(path)?;
        refuse_if_served(path)?;
        let made = (|| {
            remove_if_there(&temporary)?; // of a worker that died while it made it
            let listener = UnixListener::bind(&temporary)?;
            std::fs::set_permissions(&temporary, Permissions::from_mode(MODE))?;
            std::fs::rename(&temporary, path)?;
            Ok(listener)
        })();
        let listener = made.map_err(|source| {
            // Best effort: it may not have been made at all.
            let _gone = remove_if_there(&temporary);
            io_error("make the socket", path)(source)
        })?;
        Ok(Self {
            listener,
            path: path.to_owned(),
            _lock: lock,
        })
    }

    /// What connections come from.
    pub(super) fn listener(&self) -> &UnixListener {
        &self.listener
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for Bound {
    fn drop(&mut self) {
        // Ours still: the lock is held until after this. A path that is gone already is no loss.
        let _gone = std::fs::remove_file(&self.path);
    }
}

fn remove_if_there(path: &Path) -> io::Result<()> {
    match std::fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        Ok(()) | Err(_) => Ok(()),
    }
}

fn io_error(action: &'static str, path: &Path) -> impl FnOnce(io::Error) -> SocketError {
    let path = path.to_owned();
    move |source| SocketError::Io {
        action,
        path,
        source,
    }
}

/// A name beside the path under which the socket is made; checked to be short enough to be bound.
fn temporary_name(path: &Path) -> Result<PathBuf, SocketError> {
    if path.file_name().is_none() {
        return Err(SocketError::NoName(path.to_owned()));
    }
    let temporary = with_suffix(path, TEMPORARY);
    if temporary.as_os_str().len() > LONGEST_PATH {
        return Err(SocketError::TooLong {
            path: path.to_owned(),
            limit: LONGEST_PATH - TEMPORARY.len(),
        });
    }
    Ok(temporary)
}

fn with_suffix(path: &Path, suffix: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(suffix);
    PathBuf::from(name)
}

/// A lock ends with its process, so it tells a live worker from a dead one's remains.
fn take_lock(path: &Path) -> Result<File, SocketError> {
    let lock_path = with_suffix(path, LOCK);
    let mut lock = OpenOptions::new()
        .read(true)
        .write(true)
        .create(true)
        .truncate(false)
        .open(&lock_path)
        .map_err(io_error("open the lock file", &lock_path))?;
    match flock(&lock, FlockOperation::NonBlockingLockExclusive) {
        Ok(()) => {}
        Err(rustix::io::Errno::WOULDBLOCK) => {
            return Err(SocketError::Served {
                path: path.to_owned(),
                holder: holder(&mut lock),
            });
        }
        Err(error) => return Err(io_error("lock", &lock_path)(error.into())),
    }
    let noted = lock
        .set_len(0)
        .and_then(|()| lock.rewind())
        .and_then(|()| writeln!(lock, "{}", std::process::id()));
    noted.map_err(io_error("write the lock file", &lock_path))?;
    Ok(lock)
}

fn holder(lock: &mut File) -> String {
    let mut pid = String::new();
    match lock.take(20).read_to_string(&mut pid) {
        Ok(_) if pid.trim().parse::<u32>().is_ok() => format!(" (process {})", pid.trim()),
        Ok(_) | Err(_) => String::new(),
    }
}

/// We have the lock; a file that is no socket, or a server that knows no lock, is left alone.
fn refuse_if_served(path: &Path) -> Result<(), SocketError> {
    let found = match std::fs::symlink_metadata(path) {
        Ok(found) => found,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(io_error("look at", path)(error)),
    };
    if !found.file_type().is_socket() {
        return Err(SocketError::NotASocket(path.to_owned()));
    }
    if std::os::unix::net::UnixStream::connect(path).is_ok() {
        return Err(SocketError::Served {
            path: path.to_owned(),
            holder: String::new(),
        });
    }
    Ok(())
}
