//! What a process takes of the machine, as Linux counts it.

use std::io;
use std::time::{Duration, Instant};

use crate::clock;

/// Linux counts in hundredths of a second, whatever its own timer does (`USER_HZ`).
const TICKS_PER_SECOND: u64 = 100;

/// Lines of a process's status: the memory that it has, and had at most.
pub(crate) const RESIDENT: &str = "VmRSS:";
const PEAK: &str = "VmHWM:";

/// How much a process had used at a moment.
#[derive(Clone, Copy, Debug)]
pub struct Usage {
    at: Instant,
    cpu: Duration,
    /// Its resident memory.
    pub resident_mib: f64,
    /// The most that it ever was.
    pub peak_mib: f64,
}

// === impl Usage ===

impl Usage {
    /// What the process has used so far.
    pub fn of(pid: u32) -> io::Result<Self> {
        let stat = std::fs::read_to_string(format!("/proc/{pid}/stat"))?;
        let status = std::fs::read_to_string(format!("/proc/{pid}/status"))?;
        let odd = || io::Error::other(format!("process {pid}: {stat}"));
        let ticks = ticks(&stat).ok_or_else(odd)?;
        Ok(Self {
            at: clock::now(),
            cpu: Duration::from_millis(ticks * 1000 / TICKS_PER_SECOND),
            resident_mib: mib(&status, RESIDENT).ok_or_else(odd)?,
            peak_mib: mib(&status, PEAK).ok_or_else(odd)?,
        })
    }

    /// Cores in use on average since then.
    pub fn cores_since(&self, before: &Self) -> f64 {
        let wall = self.at.duration_since(before.at).as_secs_f64();
        let cpu = self.cpu.saturating_sub(before.cpu).as_secs_f64();
        cpu / wall.max(f64::EPSILON)
    }
}

/// User and system time. The name before them is in parentheses and may hold anything.
fn ticks(stat: &str) -> Option<u64> {
    let (_, fields) = stat.rsplit_once(')')?;
    let mut times = fields.split_whitespace().skip(11);
    let mut next = || times.next()?.parse::<u64>().ok();
    Some(next()? + next()?)
}

fn mib(status: &str, name: &str) -> Option<f64> {
    Some(f64::from(kib(status, name)?) / 1024.0)
}

/// A line of a process's status that is in KiB.
pub(crate) fn kib(status: &str, name: &str) -> Option<u32> {
    let line = status.lines().find_map(|line| line.strip_prefix(name))?;
    line.split_whitespace().next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_is_read_as_the_kernel_writes_it() {
        let stat = "42 (a) b) c) S 1 42 42 0 -1 4194560 100 0 0 0 250 50 0 0 20 0 3 0 9 1 2";
        assert_eq!(ticks(stat), Some(300));
        assert_eq!(mib("Name:\tx\nVmRSS:\t    1536 kB\n", RESIDENT), Some(1.5));
        assert!(Usage::of(std::process::id()).unwrap().resident_mib > 0.0);
    }
}
