//! The clients in `clients/` and the applications in `examples/applications`, each behind a real
//! worker: started before it, killed workers under them, messages that fail, SIGTERM. What they saw
//! is judged by the history checker.

mod programs;

use std::collections::BTreeSet;
use std::process::Command;
use std::time::Duration;

use lockstep_e2e::children::{self, Child};
use lockstep_e2e::history::{self, Record};
use lockstep_e2e::nats_cluster::NatsCluster;
use lockstep_e2e::nats_server::NatsServer;
use lockstep_e2e::process::wait_for_line;
use lockstep_e2e::scene::{Application, Manifest, Outcome, SceneError};
use lockstep_e2e::until::until_sync;
use lockstep_e2e::{Scene, checker::Expectations};

use programs::Program;

/// How long an assignment may take to settle, the session timeout of 6 s and a busy machine included.
const SETTLED: Duration = Duration::from_secs(45);

/// Messages of a partition in hand.
const WINDOW: u32 = 8;

/// How long an application may take to notice something, or to end.
const SOON: Duration = Duration::from_secs(20);

#[tokio::test]
async fn python_over_http() -> Outcome<()> {
    stands_its_trial("python3", Some(programs::python())).await
}

#[tokio::test]
async fn go_over_http() -> Outcome<()> {
    stands_its_trial("go", programs::go("http").await?).await
}

#[tokio::test]
async fn go_over_grpc() -> Outcome<()> {
    stands_its_trial("go", programs::go("grpc").await?).await
}

#[tokio::test]
async fn node_over_http() -> Outcome<()> {
    stands_its_trial("node and npm", programs::node("http").await?).await
}

#[tokio::test]
async fn node_over_grpc() -> Outcome<()> {
    stands_its_trial("node and npm", programs::node("grpc").await?).await
}

#[tokio::test]
async fn java_over_http() -> Outcome<()> {
    stands_its_trial("java and mvn", programs::java().await?).await
}

#[tokio::test]
async fn what_go_generated_is_what_the_protobuf_source_gives() -> Outcome<()> {
    let client = programs::root().join("clients/go");
    programs::run(&client, &["go", "run", "./internal/generate", "-check"]).await?;
    programs::run(&client, &["go", "vet", "./..."]).await
}

#[test]
fn clients_are_thin() {
    let clients = programs::root().join("clients");
    for file in [
        "python/lockstep.py",
        "go/lockstep.go",
        "go/consume.go",
        "go/workergrpc/grpc.go",
        "node/lockstep.js",
        "node/grpc.js",
        "java/src/main/java/dev/lockstep/Worker.java",
        "java/src/main/java/dev/lockstep/Consumer.java",
        "java/src/main/java/dev/lockstep/UnixHttp.java",
    ] {
        let lines = std::fs::read_to_string(clients.join(file))
            .unwrap()
            .lines()
            .count();
        assert!(lines < 200, "clients/{file} has {lines} lines");
    }
}

/// One life after the other of an application, judged at the end.
async fn stands_its_trial(needs: &str, program: Program) -> Outcome<()> {
    let Some(program) = program else {
        let what = format!("the application that needs {needs}, which this machine lacks");
        return Ok(programs::skip(&what)?);
    };
    let servers = NatsCluster::of(NatsServer::start().await?);
    let manifest = Manifest {
        max_in_flight: WINDOW,
        ..Manifest::default()
    };
    let mut scene = Scene::prepare(manifest, servers).await?;

    // Started before the worker, which is started before the group.
    let mut application = start(&scene, &program)?;
    wait_for_line(&application, "", SOON).await?;
    scene.add_member("w1", Application::None)?;
    wait_for_line(&application, "not-joined", SOON).await?;
    scene.add_coordinator("c1")?;
    scene.group_exists().await?;
    scene.settles_on(&["w1"], SETTLED).await?;
    scene.publish(24, 150).await?;
    goes_on(&scene, 200).await?;

    scene.note("the worker is killed")?;
    scene.member("w1")?.restart_worker()?;
    goes_on(&scene, 300).await?;

    scene.note("the application is told to end")?;
    let status = application.terminate(SOON).await?;
    assert_eq!(
        children::describe(status),
        "exit code 0",
        "{}",
        application.tail()
    );
    assert_eq!(in_hand(&scene)?, [], "{}", application.tail());

    let again = start(&scene, &program)?;
    goes_on(&scene, 200).await?;
    let expect = Expectations {
        in_flight: u64::from(WINDOW),
        uncommitted: 200,
        ..Expectations::default()
    };
    let verdict = scene.ends_well(&expect).await?;
    let (failed, forgotten) = failures(&scene)?;
    assert!(failed > 5, "{}\n{verdict}", again.tail());
    assert_eq!(
        forgotten,
        [],
        "failed and never handed over again\n{verdict}"
    );
    Ok(())
}

/// An application at the socket of `w1`, which fails every 40th message once.
fn start(scene: &Scene, program: &[String]) -> Outcome<Child> {
    let mut command = Command::new(&program[0]);
    command.args(&program[1..]);
    // Go takes one dash or two.
    command.args(["--member", "w1", "--fail-every", "40"]);
    command.arg("--socket").arg(scene.path("w1.sock"));
    command.arg("--log").arg(scene.path("history/w1.jsonl"));
    Ok(children::start(command, &scene.path("w1-app.log"))?)
}

/// Waits until so many acknowledgements more are accepted.
async fn goes_on(scene: &Scene, more: usize) -> Outcome<()> {
    let goal = count(scene, |record| matches!(record, Record::Acked(_)))? + more;
    let acked = until_sync(format!("{goal} acknowledgements"), SETTLED, || match count(
        scene,
        |record| matches!(record, Record::Acked(_)),
    ) {
        Ok(acked) if acked >= goal => Ok(()),
        Ok(acked) => Err(format!("{acked} acknowledgements")),
        Err(error) => Err(error.to_string()),
    });
    let app = children::tail(&scene.path("w1-app.log"));
    acked
        .await
        .map_err(|late| SceneError::new(format!("{late}\n{app}")))
}

/// What the application was handed and neither acknowledged nor gave back, nor was told to forget.
fn in_hand(scene: &Scene) -> Outcome<Vec<(u32, u64, u64)>> {
    let mut open = BTreeSet::new();
    for record in history::read(&scene.path("history/w1.jsonl"))? {
        match record {
            Record::Seen {
                partition,
                epoch,
                sequence,
                ..
            } => {
                open.insert((partition, epoch, sequence));
            }
            Record::Acked(ack) | Record::Refused(ack) => {
                open.retain(|(partition, epoch, sequence)| {
                    (*partition, *epoch) != (ack.partition, ack.epoch) || *sequence > ack.sequence
                });
            }
            Record::Nacking(ack) => {
                open.remove(&(ack.partition, ack.epoch, ack.sequence));
            }
            Record::Published { .. }
            | Record::Acking(_)
            | Record::Commit { .. }
            | Record::Granted { .. }
            | Record::Member { .. }
            | Record::Event { .. } => {}
        }
    }
    Ok(open.into_iter().collect())
}

/// How many messages failed, and those of them that nobody saw again.
fn failures(scene: &Scene) -> Outcome<(usize, Vec<(u32, u64)>)> {
    let (mut failed, mut open) = (0, BTreeSet::new());
    for record in history::read(&scene.path("history/w1.jsonl"))? {
        if let Record::Nacking(ack) = record {
            failed += 1;
            open.insert((ack.partition, ack.sequence));
        } else if let Record::Seen {
            partition,
            sequence,
            ..
        } = record
        {
            open.remove(&(partition, sequence));
        }
    }
    Ok((failed, open.into_iter().collect()))
}

/// How many such records the application has written.
fn count(scene: &Scene, such: fn(&Record) -> bool) -> Outcome<usize> {
    let records = history::read(&scene.path("history/w1.jsonl"))?;
    Ok(records.iter().filter(|record| such(record)).count())
}
