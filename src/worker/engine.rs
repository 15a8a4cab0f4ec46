//! Starting a member.

use std::time::Duration;

use tokio::sync::{broadcast, mpsc, watch};

use crate::nats::{ConnectError, Connection, Role};
use crate::tasks::Tasks;

use super::command::COMMANDS;
use super::handle::{Health, MemberHandle};
use super::inbox::Inbox;
use super::pump::{Ears, Pump};
use super::settings::WorkerSettings;

/// How long a member that is stopped without a drain tries to say so.
pub(super) const LAST_WORDS: Duration = Duration::from_secs(2);

/// Events that a slow subscriber may be behind before it misses some.
const EVENTS: usize = 1024;

/// A member as a set of tasks.
#[derive(Debug)]
pub struct Engine;

// === impl Engine ===

impl Engine {
    /// Starts a member: it joins its group as soon as it can, and waits for NATS for as long as it
    /// takes. Returns before it has joined; an error means that these options can never work.
    ///
    /// The member ends with `tasks`. Drain it first ([`MemberHandle::drain`]): a member that is
    /// just stopped gives its partitions back as they are.
    pub async fn start(
        settings: WorkerSettings,
        tasks: &Tasks,
    ) -> Result<MemberHandle, ConnectError> {
        let role = Role::Member(settings.group.clone());
        let name = |what| format!("lockstep worker {} ({what})", settings.member_id);
        let control = Connection::connect(&settings.nats, &role, &name("control")).await?;
        let data = Connection::connect(&settings.nats, &role, &name("data")).await?;
        let (commands, from_handles) = mpsc::channel(COMMANDS);
        let (events, _) = broadcast::channel(EVENTS);
        let (health, seen) = watch::channel(Health::default());
        let (inbox, outlets) = Inbox::new();
        let ears = Ears {
            outlets,
            commands: from_handles,
            connection: control.events(),
        };
        let handle = MemberHandle {
            commands,
            events: events.clone(),
            health: seen,
        };
        let pump = Pump::new(settings, (control, data), tasks, inbox, (events, health));
        tasks.spawn_vital("member", |stopping| pump.run(ears, stopping));
        Ok(handle)
    }
}
