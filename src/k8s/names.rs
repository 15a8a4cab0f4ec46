//! Labels, annotations and other names that people and programs hold on to.

/// Pods with this label are members of the group that it names.
pub const GROUP_LABEL: &str = "lockstep.dev/consumer-group";

/// On a pod: `"false"` leaves it as it is.
pub const INJECT: &str = "lockstep.dev/inject";
/// On a pod: the hash of what was injected.
pub const INJECTED: &str = "lockstep.dev/injected";
/// On a pod: the containers that get the socket, by default the first.
pub const CONTAINERS: &str = "lockstep.dev/containers";
/// On a pod: another image of the worker.
pub const WORKER_IMAGE: &str = "lockstep.dev/worker-image";
/// On a pod: what CPU is reserved for the worker.
pub const WORKER_CPU_REQUEST: &str = "lockstep.dev/worker-cpu-request";
/// On a pod: what memory is reserved for the worker.
pub const WORKER_MEMORY_REQUEST: &str = "lockstep.dev/worker-memory-request";
/// On a pod: what CPU the worker may use at most.
pub const WORKER_CPU_LIMIT: &str = "lockstep.dev/worker-cpu-limit";
/// On a pod: what memory the worker may use at most.
pub const WORKER_MEMORY_LIMIT: &str = "lockstep.dev/worker-memory-limit";
/// On a pod: how much the worker logs.
pub const LOG_LEVEL: &str = "lockstep.dev/log-level";
/// On a pod: how long the worker waits for acknowledgements when the pod ends.
pub const DRAIN_TIMEOUT: &str = "lockstep.dev/drain-timeout";
/// On a pod: `"true"` raises the pod's grace period to what draining may take.
pub const ADJUST_GRACE_PERIOD: &str = "lockstep.dev/adjust-grace-period";
/// On a pod: the port of the worker's metrics; 0 is none.
pub const METRICS_PORT: &str = "lockstep.dev/metrics-port";

/// On a group or connection: `disabled` stops every write for it.
pub const RECONCILE: &str = "lockstep.dev/reconcile";
/// On a group: the cluster uid whose state it may take over.
pub const ADOPT_FROM: &str = "lockstep.dev/adopt-from";
/// On a group: `"true"` accepts that the bucket was lost, once.
pub const ACCEPT_STATE_LOSS: &str = "lockstep.dev/accept-state-loss";
/// On a group: `all`, or numbers as in `0,3`: of these partitions, those that stand still are lifted,
/// once.
pub const RESUME: &str = "lockstep.dev/resume";
/// Keeps an object until what it stands for is cleaned up.
pub const FINALIZER: &str = "lockstep.dev/cleanup";

/// The injected container.
pub const WORKER_CONTAINER: &str = "lockstep-worker";
/// The volume of the socket.
pub const SOCKET_VOLUME: &str = "lockstep-socket";
/// The empty volume that keeps the `ServiceAccount`'s token out of the worker.
pub const NO_TOKEN_VOLUME: &str = "lockstep-no-token";
/// The volume of the worker's NATS credentials.
pub const NATS_VOLUME: &str = "lockstep-nats";
