//! A member of a group inside a Rust program.
//!
//! Start a nats-server with JetStream and a coordinator for a group first, then as many of these
//! as you like, each with a name of its own:
//!
//!     lockstep coordinator --create examples/orders.yaml
//!     cargo run --example reader -- orders member-1
//!     lockstep publish orders --key customer-42 --data hello
//!
//! Ctrl-C leaves the group cleanly: the others take over without seeing anything twice.

use std::error::Error;
use std::io::Write;
use std::time::Duration;

use lockstep::nats::Options;
use lockstep::{Reader, ReaderOptions};

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let group = arguments.next().unwrap_or_else(|| "orders".to_owned());
    let member = arguments.next().unwrap_or_else(|| "reader-1".to_owned());
    let url = std::env::var("LOCKSTEP_NATS_URL");
    let url = url.unwrap_or_else(|_| "nats://127.0.0.1:4222".to_owned());

    let options = ReaderOptions::new(Options::for_url(url), group.parse()?, &member);
    let reader = Reader::connect(options).await?;
    writeln!(std::io::stdout(), "{member} has joined {group}")?;

    let mut stop = std::pin::pin!(tokio::signal::ctrl_c());
    loop {
        let messages = tokio::select! {
            messages = reader.fetch(100, Duration::from_secs(5)) => messages?,
            _ = &mut stop => break,
        };
        for message in &messages {
            // Your work goes here. (partition, epoch) is a fencing token: a store that keeps the
            // highest epoch it has seen per partition refuses whoever was replaced.
            writeln!(
                std::io::stdout(),
                "partition {} epoch {} sequence {} key {}: {}",
                message.partition,
                message.epoch,
                message.sequence,
                message.key(),
                String::from_utf8_lossy(&message.payload),
            )?;
        }
        // Everything up to these messages is done; the commit follows within 100 ms.
        reader.ack(&messages).await?;
    }

    let drained = reader.close(Duration::from_secs(30)).await?;
    writeln!(
        std::io::stdout(),
        "{member} has left: {} partitions clean, {} not",
        drained.clean,
        drained.unclean
    )?;
    Ok(())
}
