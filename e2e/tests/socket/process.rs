//! The worker as a process: without a server, its probes, its end.

use std::time::Duration;

use lockstep_e2e::children::Child;
use lockstep_e2e::process::{run_lockstep, start_lockstep};

use super::*;

/// A port where nobody listens: it was free a moment ago, and nothing of ours takes it.
fn nobody() -> std::io::Result<String> {
    let listener = std::net::TcpListener::bind("127.0.0.1:0")?;
    Ok(format!("nats://{}", listener.local_addr()?))
}

async fn listening(client: &SocketClient, worker: &Child) -> Outcome<()> {
    let answered = until("the socket", Duration::from_secs(20), async || match client
        .get("/startupz")
        .await
    {
        Ok(reply) if reply.status == 200 => Ok(()),
        other => Err(format!("{other:?}")),
    });
    answered
        .await
        .map_err(|late| SceneError::new(format!("{late}\n{}", worker.tail())))
}

#[tokio::test]
async fn without_a_server_the_socket_answers_and_says_what_is_missing() -> Outcome<()> {
    let folder = tempfile::tempdir()?;
    let socket = folder.path().join("w.sock");
    let path = socket.display().to_string();
    let log = folder.path().join("w.log");
    let arguments = [
        "worker",
        "--group",
        "orders",
        "--socket",
        &path,
        "--nats-url",
        &nobody()?,
    ];
    let mut worker = start_lockstep(&arguments, &log)?;
    let client = SocketClient::new(&socket);
    listening(&client, &worker).await?;

    let refused = fetch(&client, json!({"max_wait": "0s"})).await?;
    assert_eq!(refused.status, 503, "{refused:?}");
    assert_eq!(refused.body["code"], "not-joined");
    assert!(refused.head.to_lowercase().contains("retry-after: 1"));
    // What is wrong with a request is said all the same.
    let wrong = fetch(&client, json!({"max_message": 1})).await?;
    assert_eq!(
        (wrong.status, &wrong.body["field"]),
        (400, &json!("max_message"))
    );
    let status = client.get("/v1/status").await?;
    assert_eq!(status.status, 200, "{status:?}");
    assert_eq!(status.body["state"], "JOINING");
    assert_eq!(status.body["nats"]["connected"], false);

    for (question, code) in [("startup", 0), ("live", 0), ("ready", 1)] {
        let probe = run_lockstep(&["worker", "probe", question, "--socket", &path]).await?;
        assert_eq!(probe.code, Some(code), "{question}: {probe:?}");
        if code == 1 {
            assert!(probe.stderr.contains("is not ready"), "{probe:?}");
        }
    }
    let said = until("a word about NATS", Duration::from_secs(20), async || {
        let text = std::fs::read_to_string(&log).unwrap_or_default();
        if text.contains("not joined yet") {
            Ok(())
        } else {
            Err(text)
        }
    });
    said.await?;
    let status = worker.terminate(Duration::from_secs(20)).await?;
    assert!(status.success(), "{status:?}\n{}", worker.tail());
    assert!(!socket.exists(), "the socket is gone with its worker");
    Ok(())
}

#[tokio::test]
async fn a_worker_says_when_it_is_ready_and_leaves_when_it_is_told_to() -> Outcome<()> {
    let (mut scene, client) = alone().await?;
    let path = scene.member("w1")?.socket().display().to_string();
    let printed = std::fs::read_to_string(scene.path("w1.log"))?;
    let ready: Vec<&str> = printed
        .lines()
        .filter(|l| l.starts_with("ready: "))
        .collect();
    assert_eq!(
        ready,
        [format!("ready: member w1 of default/orders serves {path}")]
    );
    for question in ["startup", "ready", "live"] {
        let probe = run_lockstep(&["worker", "probe", question, "--socket", &path]).await?;
        assert_eq!(probe.code, Some(0), "{question}: {probe:?}");
    }
    let drain = ["worker", "drain", "--socket", &path, "--timeout", "10s"];
    let drained = run_lockstep(&drain).await?;
    assert_eq!(drained.code, Some(0), "{drained:?}");
    assert_eq!(
        drained.stdout,
        "drained: 6 partitions released clean, 0 unclean\n"
    );
    // It has left, and waits for its end.
    let refused = fetch(&client, json!({"max_wait": "0s"})).await?;
    assert_eq!(refused.body["code"], "draining", "{refused:?}");
    scene.remove_member("w1").await?;
    let nobody = run_lockstep(&["worker", "probe", "ready", "--socket", &path]).await?;
    assert_eq!(nobody.code, Some(1));
    assert!(nobody.stderr.contains("no worker listens"), "{nobody:?}");
    Ok(())
}

#[tokio::test]
async fn metrics_and_probes_are_served_over_tcp() -> Outcome<()> {
    let (mut scene, client) = alone().await?;
    publish(&client, "k", "a").await?;
    let socket = scene.path("w2.sock").display().to_string();
    let joined = scene.path("joined").display().to_string();
    let log = scene.path("w2.log");
    let url = scene.servers.url();
    let arguments = [
        "worker",
        "--group",
        "orders",
        "--socket",
        &socket,
        "--member-id",
        "w2",
        "--nats-url",
        &url,
        "--http-addr",
        "127.0.0.1:0",
        "--joined-file",
        &joined,
        "--log-format",
        "json",
    ];
    let mut worker = start_lockstep(&arguments, &log)?;
    let address = until("the ready line", SETTLED, async || {
        let text = std::fs::read_to_string(&log).unwrap_or_default();
        let line = text.lines().find(|line| line.starts_with("ready: "));
        line.and_then(|line| line.split(", http on ").nth(1))
            .map(str::to_owned)
            .ok_or(text)
    });
    let address = address.await?;
    assert!(std::path::Path::new(&joined).exists());
    let metrics = lockstep_e2e::http::get(&address, "/metrics").await?;
    assert_eq!(metrics.0, 200);
    for name in [
        "lockstep_messages_delivered_total",
        "lockstep_order_violations_total",
        "lockstep_lease_remaining_seconds",
        "lockstep_nats_connected 1",
    ] {
        assert!(metrics.1.contains(name), "no {name} in {}", metrics.1);
    }
    assert_eq!(lockstep_e2e::http::get(&address, "/readyz").await?.0, 200);
    assert_eq!(lockstep_e2e::http::get(&address, "/healthz").await?.0, 200);
    let text = std::fs::read_to_string(&log)?;
    for line in text.lines().filter(|line| !line.starts_with("ready: ")) {
        let line: Value = serde_json::from_str(line)
            .map_err(|error| SceneError::new(format!("{error}: {line}")))?;
        for field in ["timestamp", "level", "message", "target"] {
            assert!(line[field].is_string(), "{line}");
        }
    }
    let status = worker.terminate(Duration::from_secs(30)).await?;
    assert!(status.success(), "{}", worker.tail());
    scene.remove_member("w1").await
}
