//! Credentials in a folder, as a mounted Secret: a worker waits for what is missing, uses what
//! changes, and ends for none of it.

use std::path::{Path, PathBuf};

use lockstep_e2e::children::Child;
use lockstep_e2e::nats_server::certificate;
use lockstep_e2e::process::start_lockstep_with;
use lockstep_e2e::{NatsCluster, NatsServer, clock};
use tempfile::TempDir;

use super::*;

/// Longer than a client waits between two attempts, each of which may take 2 s.
const LONGEST_WAIT: Duration = Duration::from_secs(8);

/// A worker that the test has started itself.
struct Worker {
    process: Child,
    client: SocketClient,
    log: PathBuf,
    secret: TempDir,
}

impl Worker {
    /// With these files in its folder.
    fn start(scene: &Scene, url: &str, files: &[(&str, &str)]) -> Outcome<Self> {
        Self::start_in(&[], scene, url, files)
    }

    fn start_in(
        environment: &[(&str, &Path)],
        scene: &Scene,
        url: &str,
        files: &[(&str, &str)],
    ) -> Outcome<Self> {
        let (socket, log) = (scene.path("w1.sock"), scene.path("w1.log"));
        let secret = tempfile::tempdir()?;
        put(secret.path(), files)?;
        let arguments = [
            "worker",
            "--group=orders",
            "--member-id=w1",
            "--socket",
            &socket.display().to_string(),
            "--nats-url",
            url,
            "--nats-secret-dir",
            &secret.path().display().to_string(),
        ];
        Ok(Self {
            process: start_lockstep_with(&arguments, environment, &log)?,
            client: SocketClient::new(socket),
            log,
            secret,
        })
    }

    fn is_given(&self, files: &[(&str, &str)]) -> Outcome<()> {
        put(self.secret.path(), files)
    }

    /// It listens, is not well, and says this of the reason.
    async fn waits_for(&self, words: &str) -> Outcome<()> {
        let waits = until("a word of what is missing", SETTLED, async || {
            let text = |error: std::io::Error| error.to_string();
            let refused = fetch(&self.client, json!({"max_wait": "0s"}))
                .await
                .map_err(text)?;
            let status = self.client.get("/v1/status").await.map_err(text)?;
            let problems = status.body["problems"].to_string();
            let waits = refused.status == 503 && refused.body["code"] == "not-joined";
            if waits && problems.contains(words) {
                Ok(())
            } else {
                Err(format!("{refused:?} {problems}"))
            }
        });
        waits
            .await
            .map_err(|late| SceneError::new(format!("{late}\n{}", self.process.tail())))
    }

    /// It joins, and hands over what is published.
    async fn joins(&self) -> Outcome<()> {
        owns_all(&self.client, 6)
            .await
            .map_err(|late| SceneError::new(format!("{late}\n{}", self.process.tail())))
    }

    async fn works(&self, text: &str) -> Outcome<()> {
        // While its connection is down a publish is refused: then it is tried again.
        let published = until("a publish", SETTLED, async || {
            publish(&self.client, "k", text)
                .await
                .map_err(|e| e.to_string())
        });
        published.await?;
        let message = fetch_all(&self.client, 1).await?.remove(0);
        assert_eq!(message["payload"], text);
        let ack = json!({"positions": [position(&message)], "wait": "COMMITTED"});
        let acked = self.client.post("/v1/ack", &ack).await?;
        assert_eq!(acked.body["results"][0]["status"], "COMMITTED", "{acked:?}");
        Ok(())
    }

    async fn says(&self, words: &str) -> Outcome<()> {
        let said = until(format!("{words:?} in its log"), SETTLED, async || {
            let text = std::fs::read_to_string(&self.log).unwrap_or_default();
            if text.contains(words) {
                Ok(())
            } else {
                Err(text)
            }
        });
        Ok(said.await?)
    }

    async fn epochs(&self) -> Outcome<Vec<Value>> {
        let status = self.client.get("/v1/status").await?;
        let all = status.body["partitions"].as_array().cloned();
        Ok(all
            .unwrap_or_default()
            .iter()
            .map(|p| p["epoch"].clone())
            .collect())
    }
}

/// Puts files into a folder; each is whole from its first moment.
fn put(folder: &Path, files: &[(&str, &str)]) -> Outcome<()> {
    for (name, text) in files {
        std::fs::write(folder.join(".new"), text)?;
        std::fs::rename(folder.join(".new"), folder.join(name))?;
    }
    Ok(())
}

/// The worker's connections, by the server's word: what a page says of each.
async fn connections(scene: &Scene, field: &str) -> Outcome<Vec<String>> {
    let server = &scene.servers.servers[0];
    let page = server.inspect("/connz?auth=true").await?;
    let all = page["connections"].as_array().cloned().unwrap_or_default();
    let ours = all.into_iter().filter(|c| {
        let name = c["name"].as_str().unwrap_or_default();
        name.starts_with("lockstep worker")
    });
    Ok(ours
        .map(|c| c[field].as_str().unwrap_or_default().to_owned())
        .collect())
}

#[tokio::test]
async fn a_worker_listens_before_there_is_a_server_and_joins_once_there_is() -> Outcome<()> {
    let mut scene = Scene::start(Manifest::default()).await?;
    scene.servers.kill()?;
    let begun = clock::now();
    let mut worker = Worker::start(&scene, &scene.servers.url(), &[])?;
    let listens = until("a socket", Duration::from_secs(10), async || {
        let answer = worker.client.get("/startupz").await;
        answer.map_err(|error| error.to_string())
    });
    assert_eq!(listens.await?.status, 200);
    // A second, and what a busy machine takes to start a process.
    let took = clock::now().duration_since(begun);
    assert!(took < Duration::from_secs(3), "{took:?}");
    let refused = fetch(&worker.client, json!({"max_wait": "0s"})).await?;
    assert_eq!(refused.status, 503, "{refused:?}");
    assert_eq!(refused.body["code"], "not-joined");
    assert!(refused.head.to_lowercase().contains("retry-after: 1"));
    worker.waits_for("NATS is not reached").await?;
    scene.servers.restart().await?;
    worker.joins().await?;
    worker.works("a").await?;
    assert!(worker.process.is_running());
    Ok(())
}

#[tokio::test]
async fn a_worker_waits_for_a_server_that_accepts_and_never_speaks() -> Outcome<()> {
    let silent = std::net::TcpListener::bind("127.0.0.1:0")?;
    silent.set_nonblocking(true)?;
    let scene = Scene::start(Manifest::default()).await?;
    let url = format!("nats://{}", silent.local_addr()?);
    let mut worker = Worker::start(&scene, &url, &[])?;
    worker.waits_for("NATS is not reached").await?;
    // The right address comes with the Secret, and the wrong one is left alone.
    worker.is_given(&[("servers", &scene.servers.url())])?;
    worker.joins().await?;
    let mut last = clock::now();
    let left_alone = until("silence at the former address", SETTLED, async || {
        while silent.accept().is_ok() {
            last = clock::now();
        }
        let quiet = clock::now().duration_since(last);
        if quiet > LONGEST_WAIT {
            Ok(())
        } else {
            Err(format!("{quiet:?}"))
        }
    });
    left_alone.await?;
    assert!(worker.process.is_running());
    Ok(())
}

#[tokio::test]
async fn addresses_that_are_none_are_named_and_mended() -> Outcome<()> {
    let scene = Scene::start(Manifest::default()).await?;
    let files = [("servers", "nats://no host:x")];
    let mut worker = Worker::start(&scene, &scene.servers.url(), &files)?;
    worker.waits_for("is not a server's URL").await?;
    worker.is_given(&[("servers", &scene.servers.url())])?;
    worker.joins().await?;
    worker.works("a").await?;
    assert!(worker.process.is_running());
    Ok(())
}

/// Whoever names no user may do everything; the worker has to name itself.
fn users(password: &str) -> String {
    format!(
        "authorization {{ users: [\n{{user: open, password: x}}\n\
         {{user: worker, password: {password}}}\n] }}\nno_auth_user: open\n"
    )
}

#[tokio::test]
async fn rotated_credentials_are_used_without_a_restart_or_a_new_owner() -> Outcome<()> {
    let server = NatsServer::options().config(&users("one")).start().await?;
    let mut scene = Scene::start_on(Manifest::default(), NatsCluster::of(server)).await?;
    let files = [("username", "worker"), ("password", "wrong")];
    let mut worker = Worker::start(&scene, &scene.servers.url(), &files)?;
    worker.waits_for("refuses these credentials").await?;
    worker.is_given(&[("password", "one")])?;
    worker.joins().await?;
    as_worker(&scene).await?;
    worker.works("a").await?;
    let epochs = worker.epochs().await?;

    // The folder first: what stands goes on until the server knows the new ones.
    worker.is_given(&[("password", "two")])?;
    worker
        .says("no connection with the changed credentials yet")
        .await?;
    worker.works("b").await?;
    scene.servers.servers[0].reload(&users("two"))?;
    worker.works("c").await?;
    // The server first: refused until the folder has them.
    scene.servers.servers[0].reload(&users("three"))?;
    worker.says("the connection to NATS is lost").await?;
    worker.is_given(&[("password", "three")])?;
    worker.works("d").await?;
    as_worker(&scene).await?;
    assert_eq!(worker.epochs().await?, epochs, "nobody else owned anything");
    assert!(worker.process.is_running());
    Ok(())
}

/// Both connections of the worker are the worker's user.
async fn as_worker(scene: &Scene) -> Outcome<()> {
    let both = until("two connections of the worker", SETTLED, async || {
        let users = connections(scene, "authorized_user").await;
        let users = users.map_err(|error| error.to_string())?;
        if users == ["worker", "worker"] {
            Ok(())
        } else {
            Err(format!("{users:?}"))
        }
    });
    Ok(both.await?)
}

/// A server that takes clients with and without TLS, for the test's own.
async fn with_tls() -> Outcome<Scene> {
    let server = NatsServer::options().tls().config("allow_non_tls: true");
    let servers = NatsCluster::of(server.start().await?);
    Scene::start_on(Manifest::default(), servers).await
}

async fn encrypted(scene: &Scene) -> Outcome<()> {
    let both = until("two encrypted connections", SETTLED, async || {
        let versions = connections(scene, "tls_version").await;
        let versions = versions.map_err(|error| error.to_string())?;
        if versions.len() == 2 && versions.iter().all(|v| !v.is_empty()) {
            Ok(())
        } else {
            Err(format!("{versions:?}"))
        }
    });
    Ok(both.await?)
}

#[tokio::test]
async fn an_authority_that_is_no_certificate_is_named_and_mended() -> Outcome<()> {
    let scene = with_tls().await?;
    let files = [("ca.crt", "nothing of use")];
    let mut worker = Worker::start(&scene, &scene.servers.url(), &files)?;
    worker.waits_for("ca.crt: holds no PEM block").await?;
    assert_eq!(connections(&scene, "name").await?, [""; 0]);
    let ca = std::fs::read_to_string(certificate("ca.crt"))?;
    worker.is_given(&[("ca.crt", &ca)])?;
    worker.joins().await?;
    encrypted(&scene).await?;
    // Spoilt under a connection that stands, it ends nothing.
    worker.is_given(&[("ca.crt", "nothing of use")])?;
    worker.says("cannot be used").await?;
    worker.works("a").await?;
    assert!(worker.process.is_running());
    Ok(())
}

#[tokio::test]
async fn an_authority_that_appears_later_is_used() -> Outcome<()> {
    let scene = with_tls().await?;
    let url = scene.servers.url().replace("nats://", "tls://");
    let mut worker = Worker::start(&scene, &url, &[])?;
    // Nobody knows who signed the server's certificate.
    worker.waits_for("NATS is not reached (").await?;
    let ca = std::fs::read_to_string(certificate("ca.crt"))?;
    worker.is_given(&[("ca.crt", &ca)])?;
    worker.joins().await?;
    encrypted(&scene).await?;
    assert!(worker.process.is_running());
    Ok(())
}

#[tokio::test]
async fn an_authority_that_appears_under_a_plain_connection_makes_it_an_encrypted_one()
-> Outcome<()> {
    let scene = with_tls().await?;
    let worker = Worker::start(&scene, &scene.servers.url(), &[])?;
    worker.joins().await?;
    let epochs = worker.epochs().await?;
    assert_eq!(connections(&scene, "tls_version").await?, ["", ""]);
    let ca = std::fs::read_to_string(certificate("ca.crt"))?;
    worker.is_given(&[("ca.crt", &ca)])?;
    encrypted(&scene).await?;
    worker.works("a").await?;
    assert_eq!(worker.epochs().await?, epochs);
    Ok(())
}

#[tokio::test]
async fn the_handshake_comes_first_where_the_environment_says_so() -> Outcome<()> {
    let server = NatsServer::options().handshake_first().start().await?;
    let scene = Scene::start(Manifest::default()).await?;
    let yes: &[(&str, &Path)] = &[("LOCKSTEP_TLS_HANDSHAKE_FIRST", Path::new("true"))];
    let ca = std::fs::read_to_string(certificate("ca.crt"))?;
    let worker = Worker::start_in(yes, &scene, &server.url(), &[("ca.crt", &ca)])?;
    // It gets as far as asking for its bucket, which this server does not have.
    worker.waits_for("start a coordinator with --create").await
}
