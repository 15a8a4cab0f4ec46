//! Signals that end a program that runs for long.

use tokio::signal::unix::{SignalKind, signal};
use tokio_util::sync::CancellationToken;

use super::Failure;
use crate::tasks::Tasks;

/// A token that SIGTERM and SIGINT fire.
pub(super) fn stop() -> Result<CancellationToken, Failure> {
    let catch = |kind| {
        signal(kind).map_err(|error| Failure::failed(format!("cannot catch signals: {error}")))
    };
    let mut terminate = catch(SignalKind::terminate())?;
    let mut interrupt = catch(SignalKind::interrupt())?;
    let stopping = CancellationToken::new();
    let fired = stopping.clone();
    // Ends with the process: a signal is all that it waits for.
    Tasks::new().spawn("signals", |_| async move {
        tokio::select! {
            _ = terminate.recv() => {}
            _ = interrupt.recv() => {}
        }
        tracing::info!("stepping down");
        fired.cancel();
    });
    Ok(stopping)
}
