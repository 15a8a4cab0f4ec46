//! The socket's file, and workers that compete for it.

use super::*;
use lockstep_e2e::process::run_lockstep;

#[tokio::test]
async fn a_second_worker_on_the_socket_is_refused_and_the_first_goes_on() -> Outcome<()> {
    let (mut scene, client) = alone().await?;
    let socket = scene.member("w1")?.socket().display().to_string();
    let second = scene
        .lockstep(&["worker", "--group", "orders", "--socket", &socket])
        .await?;
    assert_eq!(second.code, Some(1), "{second:?}");
    assert!(
        second.stderr.contains("is served by another worker"),
        "{second:?}"
    );
    assert_eq!(second.stdout, "");
    publish(&client, "k", "a").await?;
    assert_eq!(fetch_all(&client, 1).await?.len(), 1);
    Ok(())
}

#[tokio::test]
async fn a_killed_workers_socket_is_taken_over_by_the_next() -> Outcome<()> {
    let (mut scene, client) = alone().await?;
    publish(&client, "k", "a").await?;
    fetch_all(&client, 1).await?;
    scene.member("w1")?.worker.kill()?;
    assert!(scene.member("w1")?.socket().exists(), "left behind");
    assert!(client.get("/startupz").await.is_err(), "nobody is there");
    scene.member("w1")?.restart_worker()?;
    owns_all(&client, 6).await?;
    let again = fetch_all(&client, 1).await?;
    assert_eq!(again[0]["payload"], "a");
    Ok(())
}

#[tokio::test]
async fn a_path_that_is_no_socket_is_left_alone() -> Outcome<()> {
    let folder = tempfile::tempdir()?;
    let path = folder.path().join("precious.txt");
    std::fs::write(&path, "precious")?;
    let path = path.display().to_string();
    let refused = run_lockstep(&["worker", "--group", "orders", "--socket", &path]).await?;
    assert_eq!(refused.code, Some(1), "{refused:?}");
    assert!(refused.stderr.contains("is not a socket"), "{refused:?}");
    assert_eq!(std::fs::read_to_string(&path)?, "precious");
    Ok(())
}
