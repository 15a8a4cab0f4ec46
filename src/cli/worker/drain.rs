//! `lockstep worker drain`: makes a running worker leave its group, and waits until it has.

use std::time::Duration;

use axum::http::Method;
use clap::Args;
use serde::Deserialize;

use super::SocketFlag;
use crate::cli::{Failure, output};
use crate::settings::parse_duration;
use crate::worker::socket::client::{Answer, ask};
use crate::worker::socket::limits;

/// How long the answer may take beyond the timeout: the last commit and the release.
const GRACE: Duration = Duration::from_secs(5);

/// Make a running worker leave its group, and wait until everything is released
#[derive(Args, Debug)]
#[command(
    after_help = "The worker stops feeding, waits for the application's acknowledgements, commits, releases its\n\
                  partitions and leaves. What is not acknowledged in time is released as it is.\n\
                  Example: lockstep worker drain --socket /run/app/worker.sock --timeout 30s"
)]
pub(super) struct Flags {
    #[command(flatten)]
    socket: SocketFlag,
    /// How long to wait for acknowledgements
    #[arg(long, env = "LOCKSTEP_TIMEOUT", value_name = "DURATION",
          default_value = "30s", value_parser = parse_duration)]
    timeout: Duration,
}

/// The worker's answer.
#[derive(Deserialize)]
struct Drained {
    clean: u32,
    unclean: u32,
}

/// What the worker says is wrong.
#[derive(Deserialize)]
struct Problem {
    message: String,
    hint: String,
}

// === impl Flags ===

impl Flags {
    pub(super) async fn run(self) -> Result<(), Failure> {
        if self.timeout > limits::MAX_DRAIN {
            return Err(Failure::usage(format!(
                "--timeout is {:?}; give at most {}h",
                self.timeout,
                limits::MAX_DRAIN.as_secs() / 3600
            )));
        }
        let body = format!(r#"{{"timeout": "{}ms"}}"#, self.timeout.as_millis());
        let patience = self.timeout + GRACE;
        let answer = ask(
            &self.socket.socket,
            Method::POST,
            "/v1/drain",
            body,
            patience,
        );
        let drained = read(&answer.await.map_err(|error| Failure::of(&error))?)?;
        output::line(format_args!(
            "drained: {} partitions released clean, {} unclean",
            drained.clean, drained.unclean
        ))
    }
}

fn read(answer: &Answer) -> Result<Drained, Failure> {
    if answer.status.is_success() {
        return serde_json::from_str(&answer.body).map_err(|_| {
            Failure::failed("the worker's answer cannot be read; is it another version?")
        });
    }
    match serde_json::from_str::<Problem>(&answer.body) {
        Ok(Problem { message, hint }) => Err(Failure::failed(format!("{message}; {hint}"))),
        Err(_) => Err(Failure::failed(format!(
            "the worker answered {}",
            answer.status
        ))),
    }
}
