//! What a group holds: consumers and connections at the servers, memory and file descriptors of
//! its processes.

use std::collections::BTreeMap;
use std::io;

use serde_json::Value;

use super::api;
use crate::NatsCluster;
use crate::scene::{Outcome, Scene};
use crate::usage;

/// What the servers hold for a group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Held {
    /// Consumers of each stream.
    pub consumers: BTreeMap<String, usize>,
    /// Connections of clients, over all servers.
    pub connections: u64,
}

/// What a process holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Process {
    /// Its process id: another one is another process.
    pub pid: u32,
    /// Its resident memory in KiB.
    pub memory: u64,
    /// Its open file descriptors.
    pub files: usize,
}

/// What the servers hold now.
pub async fn held(servers: &NatsCluster, admin: &async_nats::Client) -> Outcome<Held> {
    let names = api::demand(admin, "STREAM.NAMES", &Value::Null).await?;
    let names = names.get("streams").and_then(Value::as_array).cloned();
    let mut consumers = BTreeMap::new();
    for name in names.iter().flatten().filter_map(Value::as_str) {
        let count = api::consumers(admin, name).await?.len();
        consumers.insert(name.to_owned(), count);
    }
    let mut connections = 0;
    for server in &servers.servers {
        let page = server.inspect("/connz").await?;
        let count = page.get("num_connections").and_then(Value::as_u64);
        connections += count.unwrap_or(0);
    }
    Ok(Held {
        consumers,
        connections,
    })
}

/// What each process of a scene holds now, by its name.
pub fn processes(scene: &Scene) -> io::Result<BTreeMap<String, Process>> {
    let coordinators = scene.coordinators.iter();
    let mut pids: Vec<(String, u32)> = coordinators
        .map(|(name, child)| (format!("coordinator {name}"), child.pid()))
        .collect();
    let members = scene.members.iter();
    pids.extend(members.map(|(name, member)| (format!("worker {name}"), member.worker.pid())));
    let servers = scene.servers.servers.iter().enumerate();
    pids.extend(servers.filter_map(|(i, s)| Some((format!("server {i}"), s.pid()?))));
    pids.into_iter()
        .map(|(name, pid)| Ok((name, process(pid)?)))
        .collect()
}

fn process(pid: u32) -> io::Result<Process> {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status"))?;
    let files = std::fs::read_dir(format!("/proc/{pid}/fd"))?.count();
    Ok(Process {
        pid,
        memory: usage::kib(&status, usage::RESIDENT).unwrap_or(0).into(),
        files,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_holds_what_it_opens() {
        let before = process(std::process::id()).unwrap();
        let open = std::fs::File::open("/dev/null").unwrap();
        let kept = vec![1_u8; 64 << 20];
        let after = process(std::process::id()).unwrap();
        assert!(after.files > before.files && after.memory > before.memory + (50 << 10));
        drop((open, kept));
    }
}
