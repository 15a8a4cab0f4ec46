//! A wall clock of processes that can be set while they run.
//!
//! A small library, loaded before the program, adds to what the C library says. It reaches
//! programs that ask the C library: workers, coordinators and Python. A nats-server asks the kernel
//! itself, and would need the machine's own clock to be set.

use std::fs::File;
use std::io::{self, Write};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::Command;

const SOURCE: &str = include_str!("wall_clock.c");

/// The wall clock of all processes that were started with its [`Self::environment`].
#[derive(Debug)]
pub struct WallClock {
    library: PathBuf,
    seconds: PathBuf,
    file: File,
}

impl WallClock {
    /// Builds the library in a folder; it needs a C compiler.
    pub fn build(folder: &Path) -> io::Result<Self> {
        let source = folder.join("wall_clock.c");
        File::create(&source)?.write_all(SOURCE.as_bytes())?;
        let library = folder.join("wall_clock.so");
        let mut command = Command::new("cc");
        command.args(["-shared", "-fPIC", "-O1", "-o"]);
        let built = command.arg(&library).arg(&source).output()?;
        if !built.status.success() {
            let said = String::from_utf8_lossy(&built.stderr);
            return Err(io::Error::other(format!("cc: {said}")));
        }
        let seconds = folder.join("wall_clock.seconds");
        let file = File::options()
            .create(true)
            .truncate(true)
            .write(true)
            .open(&seconds)?;
        let clock = Self {
            library,
            seconds,
            file,
        };
        clock.set(0)?;
        Ok(clock)
    }

    /// The variables that bring a process under this clock.
    pub fn environment(&self) -> Vec<(String, PathBuf)> {
        vec![
            ("LD_PRELOAD".to_owned(), self.library.clone()),
            ("WALL_CLOCK_FILE".to_owned(), self.seconds.clone()),
        ]
    }

    /// Sets it to the true time and so many seconds, at once and for all.
    pub fn set(&self, ahead: i64) -> io::Result<()> {
        self.file.write_all_at(&ahead.to_ne_bytes(), 0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_moves_the_time_of_day_of_a_running_process_and_no_other_clock() {
        let folder = tempfile::tempdir().unwrap();
        let clock = WallClock::build(folder.path()).unwrap();
        clock.set(1_000_000).unwrap();
        let script = "import time, sys\n\
            first = time.time(), time.clock_gettime(time.CLOCK_BOOTTIME)\n\
            print(); sys.stdout.flush(); sys.stdin.readline()\n\
            second = time.time(), time.clock_gettime(time.CLOCK_BOOTTIME)\n\
            print(round(second[0] - first[0]), round(second[1] - first[1]))";
        let mut python = Command::new("python3")
            .args(["-c", script])
            .envs(clock.environment())
            .stdin(std::process::Stdio::piped())
            .stdout(std::process::Stdio::piped())
            .spawn()
            .unwrap();
        let mut out = io::BufReader::new(python.stdout.take().unwrap());
        let mut line = String::new();
        io::BufRead::read_line(&mut out, &mut line).unwrap();
        clock.set(-1_000_000).unwrap();
        python.stdin.take().unwrap().write_all(b"\n").unwrap();
        line.clear();
        io::BufRead::read_line(&mut out, &mut line).unwrap();
        assert_eq!(line.trim(), "-2000000 0");
        assert!(python.wait().unwrap().success());
    }
}
