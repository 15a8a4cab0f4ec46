//! The application over HTTP `Fetch` and `Ack`, one after the other, into a counter.

use std::collections::BTreeMap;
use std::path::Path;

use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use hyper::Request;
use hyper::client::conn::http1::{SendRequest, handshake};
use hyper_util::rt::TokioIo;
use lockstep_e2e::clock;
use lockstep_e2e::scene::{Outcome, SceneError};
use serde::Deserialize;
use serde_json::json;
use tokio::net::UnixStream;

use crate::tally::{Enough, Pace, Tally};
use crate::task::Task;

/// Most messages of one fetch.
const MOST: u64 = 5000;

#[derive(Debug, Deserialize)]
struct Fetched<'a> {
    #[serde(borrow)]
    messages: Vec<Message<'a>>,
}

/// Of a message, its token; its payload stays as it came.
#[derive(Debug, Deserialize)]
struct Message<'a> {
    partition: u32,
    epoch: u64,
    sequence: u64,
    #[serde(rename = "payload")]
    _payload: &'a str,
}

/// Reads until it is enough; every acknowledgement is waited for, the last one's commit as well.
pub(crate) async fn read(socket: &Path, window: u64, enough: Enough) -> Outcome<Pace> {
    let stream = UnixStream::connect(socket).await?;
    let (mut sender, connection) = handshake(TokioIo::new(stream)).await?;
    let _connection = Task::start(async move { Ok(connection.await?) });
    let mut tally = Tally::until(enough);
    let fetch = json!({"max_messages": window.min(MOST), "max_wait": "1s", "max_bytes": 16 << 20});
    let fetch = Bytes::from(fetch.to_string());
    loop {
        let (status, body) = post(&mut sender, "/v1/fetch", fetch.clone()).await?;
        if status == 503 {
            tokio::time::sleep(std::time::Duration::from_millis(20)).await;
            continue; // not joined yet
        }
        let fetched: Fetched<'_> = serde_json::from_slice(&body)?;
        if fetched.messages.is_empty() {
            continue;
        }
        let goes_on = tally.note(fetched.messages.len() as u64, clock::now());
        acknowledge(&mut sender, &fetched.messages, !goes_on).await?;
        if !goes_on {
            break;
        }
    }
    tally
        .pace()
        .ok_or_else(|| SceneError::new("nothing was handed over"))
}

async fn acknowledge(
    sender: &mut SendRequest<Full<Bytes>>,
    messages: &[Message<'_>],
    last: bool,
) -> Outcome<()> {
    let newest: BTreeMap<u32, &Message<'_>> = messages.iter().map(|m| (m.partition, m)).collect();
    let positions: Vec<_> = newest
        .values()
        .map(|m| json!({"partition": m.partition, "epoch": m.epoch, "sequence": m.sequence}))
        .collect();
    let wait = if last { "COMMITTED" } else { "ACCEPTED" };
    let body = json!({"positions": positions, "wait": wait}).to_string();
    let (status, answer) = post(sender, "/v1/ack", body.into()).await?;
    let answer = String::from_utf8_lossy(&answer);
    if status == 200 && !answer.contains("NOT_OWNED") && (!last || answer.contains("COMMITTED")) {
        return Ok(());
    }
    Err(SceneError::new(format!("ack: {status} {answer}")))
}

async fn post(
    sender: &mut SendRequest<Full<Bytes>>,
    path: &str,
    body: Bytes,
) -> Outcome<(u16, Bytes)> {
    let request = Request::post(path)
        .header("host", "worker")
        .header("content-type", "application/json")
        .body(Full::new(body))?;
    sender.ready().await?;
    let answer = sender.send_request(request).await?;
    let status = answer.status().as_u16();
    Ok((status, answer.into_body().collect().await?.to_bytes()))
}
