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
        let Self {
            name,
            stream,
            subject,
            partitions,
            replicas,
            ..
        } = self;
        let Self {
            max_in_flight,
            processing_timeout,
            rebalance_timeout,
            ..
        } = self;
        let Self {
            initial_rebalance_delay,
            max_attempts,
            on_failure,
            ..
        } = self;
        format!(
            r#"apiVersion: lockstep.dev/v1alpha1
kind: ConsumerGroup
metadata:
  name: {name}
spec:
  source:
    stream:
      name: {stream}
      create:
        subjects: ["{subject}.*"]
        replicas: {replicas}
  partitioning:
    partitions: {partitions}
    keyTokens: [1]
  delivery:
    maxInFlight: {max_in_flight}
    retry:
      maxAttempts: {max_attempts}
      backoff:
        initial: 50ms
        max: 500ms
    onFailure: {on_failure}
  membership:
    heartbeatInterval: 500ms
    sessionTimeout: 6s
    rebalanceTimeout: {rebalance_timeout}
    processingTimeout: {processing_timeout}
    initialRebalanceDelay: {initial_rebalance_delay}
    rebalanceDelay: 200ms
"#
        )
    }
}
