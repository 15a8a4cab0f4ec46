//! The group of a scene: short timeouts, a stream that Lockstep makes.

/// What a scene's group is. The defaults are as short as the schema allows.
#[derive(Clone, Debug)]
pub struct Manifest {
    /// The group's name.
    pub name: String,
    /// Its stream.
    pub stream: String,
    /// Publishers write to `<subject>.<key>`.
    pub subject: String,
    /// The number of partitions.
    pub partitions: u32,
    /// Replicas of the stream.
    pub replicas: u32,
    /// `delivery.maxInFlight`.
    pub max_in_flight: u32,
    /// `membership.processingTimeout`.
    pub processing_timeout: String,
    /// `membership.rebalanceTimeout`.
    pub rebalance_timeout: String,
    /// `membership.initialRebalanceDelay`.
    pub initial_rebalance_delay: String,
    /// `delivery.retry.maxAttempts`.
    pub max_attempts: u32,
    /// `delivery.onFailure`.
    pub on_failure: String,
    /// `onTruncation`.
    pub on_truncation: String,
    /// `membership.maxMembers`.
    pub max_members: u32,
    /// `membership.heartbeatInterval`.
    pub heartbeat_interval: String,
    /// Whether Lockstep makes the stream, or finds one that stores `<subject>.<partition>.<key>`.
    pub create_stream: bool,
}

impl Default for Manifest {
    fn default() -> Self {
        Self {
            name: "orders".to_owned(),
            stream: "ORDERS".to_owned(),
            subject: "orders".to_owned(),
            partitions: 6,
            replicas: 1,
            max_in_flight: 1,
            processing_timeout: "1m".to_owned(),
            rebalance_timeout: "5s".to_owned(),
            initial_rebalance_delay: "500ms".to_owned(),
            max_attempts: 5,
            on_failure: "Block".to_owned(),
            on_truncation: "Stop".to_owned(),
            max_members: 64,
            heartbeat_interval: "500ms".to_owned(),
            create_stream: true,
        }
    }
}

impl Manifest {
    /// The group's bucket.
    pub fn bucket(&self) -> String {
        format!("lockstep_default_{}", self.name)
    }

    /// As `lockstep coordinator` reads it.
    pub fn yaml(&self) -> String {
        format!(
            "apiVersion: lockstep.dev/v1alpha1\nkind: ConsumerGroup\nmetadata:\n  name: {}\nspec:\n{}{}{}",
            self.name,
            self.source(),
            self.delivery(),
            self.membership()
        )
    }

    fn source(&self) -> String {
        let Self {
            stream,
            subject,
            partitions,
            replicas,
            on_truncation,
            ..
        } = self;
        let (from, tokens) = if self.create_stream {
            let create = format!(
                "create:\n        subjects: [\"{subject}.*\"]\n        replicas: {replicas}"
            );
            (create, "\n    keyTokens: [1]")
        } else {
            (format!("subjectPattern: \"{subject}.{{partition}}.*\""), "")
        };
        format!(
            r"  source:
    stream:
      name: {stream}
      {from}
  partitioning:
    partitions: {partitions}{tokens}
  onTruncation: {on_truncation}
"
        )
    }

    fn delivery(&self) -> String {
        let Self {
            max_in_flight,
            max_attempts,
            on_failure,
            ..
        } = self;
        format!(
            r"  delivery:
    maxInFlight: {max_in_flight}
    retry:
      maxAttempts: {max_attempts}
      backoff:
        initial: 50ms
        max: 500ms
    onFailure: {on_failure}
"
        )
    }

    fn membership(&self) -> String {
        let Self {
            processing_timeout,
            rebalance_timeout,
            initial_rebalance_delay,
            max_members,
            heartbeat_interval,
            ..
        } = self;
        format!(
            r"  membership:
    heartbeatInterval: {heartbeat_interval}
    sessionTimeout: 6s
    rebalanceTimeout: {rebalance_timeout}
    processingTimeout: {processing_timeout}
    initialRebalanceDelay: {initial_rebalance_delay}
    rebalanceDelay: 200ms
    maxMembers: {max_members}
"
        )
    }
}
