//! A member inside a Rust application: the worker's engine without its socket.

use std::time::Duration;

use crate::group::{GroupRef, MemberId, Partition, SessionId};
use crate::nats::{self, ConnectError};
use crate::tasks::Tasks;
use crate::worker::{
    AckMode, AckResult, AckWait, CallError, Delivered, Drained, Engine, EventStream, FetchOptions,
    MemberHandle, Position, Publish, Published, Resolver, Status, WorkerSettings,
};

/// The session under which a [`Reader`] fetches.
const SESSION: &str = "reader";

/// How a [`Reader`] joins its group.
#[derive(Clone, Debug)]
pub struct ReaderOptions {
    /// How NATS is reached.
    pub nats: nats::Options,
    /// The group, as `NAMESPACE/NAME`.
    pub group: GroupRef,
    /// The member's label, for people and so that it gets its own partitions back when it
    /// returns. Two live members of a group must not share one.
    pub member_id: MemberId,
    /// Where it runs, for the assignor `ZoneAware`.
    pub zone: Option<String>,
    /// The first part of the bucket's name; as the coordinator has it.
    pub bucket_prefix: String,
    /// How keys become partitions in [`Reader::publish`], where not by FNV-1a.
    resolver: Option<Resolver>,
}

/// A member of a group: it owns partitions, hands over their messages in order, and commits what
/// is acknowledged.
///
/// ```no_run
/// use std::time::Duration;
/// use lockstep::{Reader, ReaderOptions};
/// use lockstep::nats::Options;
///
/// # async fn example() -> Result<(), Box<dyn std::error::Error>> {
/// let options = ReaderOptions::new(
///     Options::for_url("nats://127.0.0.1:4222"),
///     "orders".parse()?,
///     "billing-1",
/// );
/// let reader = Reader::connect(options).await?;
/// for _ in 0..10 {
///     let messages = reader.fetch(100, Duration::from_secs(5)).await?;
///     for message in &messages {
///         // (partition, epoch) is a fencing token for your own store.
///         println!("{} {}: {:?}", message.partition, message.key(), message.payload);
///     }
///     reader.ack(&messages).await?;
/// }
/// reader.close(Duration::from_secs(30)).await?;
/// # Ok(())
/// # }
/// ```
///
/// What was fetched and not acknowledged is fetched again, first and in order, for as long as its
/// partition is owned. Dropping a reader without [`Reader::close`] gives its partitions back as
/// they are: the next owner sees what was not committed again.
#[derive(Debug)]
pub struct Reader {
    member: MemberHandle,
    session: SessionId,
    tasks: Tasks,
}

/// Why a reader could not do as asked.
#[derive(Debug, thiserror::Error)]
pub enum ReaderError {
    /// These options can never work.
    #[error(transparent)]
    Options(#[from] ConnectError),
    /// The member could not serve the call.
    #[error("{call}; {hint}", call = .0, hint = .0.hint())]
    Call(#[from] CallError),
}

// === impl ReaderOptions ===

impl ReaderOptions {
    /// A member of this group with everything else as it is by default.
    pub fn new(nats: nats::Options, group: GroupRef, member_id: &str) -> Self {
        Self {
            nats,
            group,
            member_id: MemberId::new(member_id),
            zone: None,
            bucket_prefix: "lockstep".to_owned(),
            resolver: None,
        }
    }

    /// Chooses partitions in [`Reader::publish`]: from a key and the number of partitions. Every
    /// publisher of the group has to choose alike, or the order of a key is lost.
    #[must_use]
    pub fn resolve_keys(
        mut self,
        resolve: impl Fn(&str, u32) -> Partition + Send + Sync + 'static,
    ) -> Self {
        self.resolver = Some(Resolver::new(resolve));
        self
    }
}

// === impl Reader ===

impl Reader {
    /// Joins the group and waits until it takes part. While NATS or the group is not there, it
    /// waits for them: use a timeout if you do not want to.
    pub async fn connect(options: ReaderOptions) -> Result<Self, ReaderError> {
        let settings = WorkerSettings {
            zone: options.zone,
            bucket_prefix: options.bucket_prefix,
            resolver: options.resolver,
            ..WorkerSettings::new(options.nats, options.group, options.member_id)
        };
        let tasks = Tasks::new();
        let reader = Self {
            session: SessionId::new(SESSION),
            member: Engine::start(settings, &tasks).await?,
            tasks,
        };
        reader.member.keep_session(&reader.session).await?;
        reader.member.joined().await?;
        Ok(reader)
    }

    /// At most this many messages: what was fetched before and not acknowledged first, then more.
    /// Waits so long for the first one; an empty answer means that none came.
    pub async fn fetch(
        &self,
        most: u32,
        max_wait: Duration,
    ) -> Result<Vec<Delivered>, ReaderError> {
        let options = FetchOptions {
            max_messages: Some(most),
            max_wait: Some(max_wait),
            ..FetchOptions::default()
        };
        self.fetch_as(options).await
    }

    /// As [`Reader::fetch`], with every choice there is.
    pub async fn fetch_as(&self, options: FetchOptions) -> Result<Vec<Delivered>, ReaderError> {
        let fetched = self.member.fetch(&self.session, options).await?;
        Ok(fetched.messages)
    }

    /// These messages are done, and with them everything of their partitions before them. The
    /// commit follows soon.
    pub async fn ack(&self, messages: &[Delivered]) -> Result<Vec<AckResult>, ReaderError> {
        self.acknowledge(messages, AckMode::UpTo, AckWait::Accepted)
            .await
    }

    /// As [`Reader::ack`], and waits until the commits are stored.
    pub async fn commit(&self, messages: &[Delivered]) -> Result<Vec<AckResult>, ReaderError> {
        self.acknowledge(messages, AckMode::UpTo, AckWait::Committed)
            .await
    }

    /// Exactly these messages are done, and no other.
    pub async fn ack_each(&self, messages: &[Delivered]) -> Result<Vec<AckResult>, ReaderError> {
        self.acknowledge(messages, AckMode::Each, AckWait::Accepted)
            .await
    }

    async fn acknowledge(
        &self,
        messages: &[Delivered],
        mode: AckMode,
        wait: AckWait,
    ) -> Result<Vec<AckResult>, ReaderError> {
        let positions = messages.iter().map(Position::of).collect();
        let results = self.member.ack(&self.session, positions, mode, wait).await;
        Ok(results?)
    }

    /// This message failed: it is tried again in its place, after a back-off or this long.
    pub async fn nack(
        &self,
        message: &Delivered,
        error: impl Into<String>,
        delay: Option<Duration>,
    ) -> Result<Vec<AckResult>, ReaderError> {
        let positions = vec![Position::of(message)];
        let results = self
            .member
            .nack(&self.session, positions, error.into(), delay)
            .await;
        Ok(results?)
    }

    /// Publishes a message, by key into the group's own source or under a subject.
    pub async fn publish(&self, message: Publish) -> Result<Published, ReaderError> {
        Ok(self.member.publish(message).await?)
    }

    /// What happens to this member from now on.
    pub fn events(&self) -> EventStream {
        self.member.events()
    }

    /// The member's state in full.
    pub async fn status(&self) -> Result<Status, ReaderError> {
        Ok(self.member.status().await?)
    }

    /// The member itself, for what is not offered here: several sessions, streams, pauses.
    pub fn member(&self) -> &MemberHandle {
        &self.member
    }

    /// Leaves the group: commits what is acknowledged, waits so long for the rest to be, gives
    /// everything back and ends.
    ///
    /// Acknowledge what you have before, or from another task meanwhile; what is not acknowledged
    /// in time goes to the next owner again.
    pub async fn close(self, timeout: Duration) -> Result<Drained, ReaderError> {
        let drained = self.member.drain(timeout).await;
        self.tasks.stop().await;
        Ok(drained?)
    }
}

impl Drop for Reader {
    fn drop(&mut self) {
        self.tasks.begin_to_stop();
    }
}
