//! The application's socket as applications use it: a real worker, a real coordinator, a real
//! server, and every call in both encodings.

mod drain;
mod file;
mod grpc;
mod http;
mod process;
mod secrets;
mod sessions;

use std::time::Duration;

use lockstep_e2e::scene::{Application, Manifest, Outcome, SceneError};
use lockstep_e2e::socket_client::{Reply, SocketClient};
use lockstep_e2e::{Scene, until};
use serde_json::{Value, json};

/// How long a group of one may take until it owns everything, on a busy machine.
const SETTLED: Duration = Duration::from_secs(45);

/// A group with one worker, and nothing behind its socket but the test.
async fn alone() -> Outcome<(Scene, SocketClient)> {
    alone_with(Manifest {
        max_in_flight: 100,
        ..Manifest::default()
    })
    .await
}

async fn alone_with(manifest: Manifest) -> Outcome<(Scene, SocketClient)> {
    let partitions = manifest.partitions as usize;
    let mut scene = Scene::start(manifest).await?;
    scene.add_member("w1", Application::None)?;
    let client = SocketClient::new(scene.member("w1")?.socket());
    owns_all(&client, partitions).await?;
    Ok((scene, client))
}

/// Asks for messages, as an application does, until the worker owns all partitions.
async fn owns_all(client: &SocketClient, partitions: usize) -> Outcome<()> {
    let owned = until("all partitions", SETTLED, async || {
        let Ok(fetched) = fetch(client, json!({"max_wait": "100ms"})).await else {
            return Err("nobody answers".to_owned());
        };
        let status = client.get("/v1/status").await.map_err(|e| e.to_string())?;
        let feeding = status.body["partitions"].as_array().map_or(0, |all| {
            all.iter().filter(|p| p["state"] == "FEEDING").count()
        });
        if feeding == partitions {
            Ok(())
        } else {
            Err(format!("{} {}", fetched.body, status.body))
        }
    });
    Ok(owned.await?)
}

async fn fetch(client: &SocketClient, body: Value) -> std::io::Result<Reply> {
    client.post("/v1/fetch", &body).await
}

/// Fetches until this many messages have come.
async fn fetch_all(client: &SocketClient, count: usize) -> Outcome<Vec<Value>> {
    let mut all: Vec<Value> = Vec::new();
    let ask = json!({"max_messages": 1000, "max_wait": "200ms", "payload_encoding": "TEXT"});
    let got = until("messages", SETTLED, async || {
        let reply = fetch(client, ask.clone())
            .await
            .map_err(|e| e.to_string())?;
        all = reply.messages().to_vec();
        if all.len() == count {
            Ok(())
        } else {
            Err(format!("{} messages: {}", all.len(), reply.body))
        }
    });
    got.await?;
    Ok(all)
}

async fn publish(client: &SocketClient, key: &str, payload: &str) -> Outcome<Value> {
    let body = json!({"key": key, "payload": payload, "payload_encoding": "TEXT"});
    let reply = client.post("/v1/publish", &body).await?;
    if reply.status == 200 {
        Ok(reply.body)
    } else {
        Err(SceneError::new(format!("publish: {reply:?}")))
    }
}

/// A message's place.
fn position(message: &Value) -> Value {
    json!({
        "partition": message["partition"],
        "epoch": message["epoch"],
        "sequence": message["sequence"],
    })
}
