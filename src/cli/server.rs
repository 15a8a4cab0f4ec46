//! A connection for a command that answers and ends.

use std::time::Duration;

use super::{CommonFlags, Failure};
use crate::nats::{Connection, Role, Standing};

/// How long a command waits for a server before it says that there is none.
const PATIENCE: Duration = Duration::from_secs(5);

/// Reaches the server, or fails with a sentence. A worker waits for ever; a person does not.
pub(super) async fn reach(common: &CommonFlags) -> Result<Connection, Failure> {
    let options = common.options()?;
    let connected = Connection::connect(&options, &Role::Cli, "lockstep").await;
    let connection = connected.map_err(|e| Failure::of(&e))?;
    if tokio::time::timeout(PATIENCE, connection.up())
        .await
        .is_ok()
    {
        return Ok(connection);
    }
    let why = match connection.standing() {
        Standing::Down { why: Some(why) } => why,
        Standing::Down { why: None } | Standing::Up => "no answer".to_owned(),
    };
    Err(Failure::failed(format!(
        "cannot connect to NATS at {}: {why}; start the server, or check --nats-url and the \
         credentials",
        options.urls.join(", "),
    )))
}
