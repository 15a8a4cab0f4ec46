//! `lockstep worker probe`: asks a running worker how it is, for exec probes.

use std::time::Duration;

use axum::http::Method;
use clap::{Args, ValueEnum};

use super::SocketFlag;
use crate::cli::{Failure, output};
use crate::worker::socket::client::ask;

/// A worker that does not answer in this time is not well.
const PATIENCE: Duration = Duration::from_secs(5);

/// Ask a running worker how it is: exit code 0 is well, 1 is not
#[derive(Args, Debug)]
#[command(
    after_help = "startup: the socket answers. ready: the member has joined its group (and stays ready when NATS\n\
                  goes away later). live: its event loop turns. Prints one word.\n\
                  Example: lockstep worker probe ready --socket /run/app/worker.sock"
)]
pub(super) struct Flags {
    /// What to ask
    #[arg(value_enum)]
    question: Question,
    #[command(flatten)]
    socket: SocketFlag,
}

/// What a probe asks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Question {
    Startup,
    Ready,
    Live,
}

// === impl Flags ===

impl Flags {
    pub(super) async fn run(self) -> Result<(), Failure> {
        let (path, not) = match self.question {
            Question::Startup => ("/startupz", "has not started"),
            Question::Ready => ("/readyz", "is not ready"),
            Question::Live => ("/healthz", "is not alive"),
        };
        let answer = ask(
            &self.socket.socket,
            Method::GET,
            path,
            String::new(),
            PATIENCE,
        );
        let answer = answer.await.map_err(|error| Failure::of(&error))?;
        let word = answer.body.trim();
        if answer.status.is_success() {
            return output::line(word);
        }
        Err(Failure::failed(format!(
            "the worker on {} {not}: {word}; its log says what it waits for",
            self.socket.socket.display()
        )))
    }
}
