//! The socket's file, and how many may connect.

use super::*;

#[tokio::test]
async fn the_socket_is_open_to_all_and_gone_at_the_end() {
    let scene = Scene::start();
    let found = std::fs::symlink_metadata(scene.socket()).unwrap();
    assert!(found.file_type().is_socket());
    assert_eq!(found.permissions().mode() & 0o777, 0o666);
    scene.tasks.stop().await;
    assert!(!scene.socket().exists());
}

#[tokio::test]
async fn a_socket_that_is_served_is_refused_and_left_alone() {
    let scene = Scene::start();
    let error = Bound::bind(&scene.socket()).unwrap_err().to_string();
    assert!(error.contains("is served by another worker"), "{error}");
    assert!(
        error.contains(&format!("(process {})", std::process::id())),
        "{error}"
    );
    assert_eq!(scene.get("/startupz").await.status, 200);
}

#[tokio::test]
async fn a_server_that_knows_no_lock_is_left_alone_too() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("s");
    let _other = std::os::unix::net::UnixListener::bind(&path).unwrap();
    let error = Bound::bind(&path).unwrap_err();
    assert!(matches!(error, SocketError::Served { .. }), "{error}");
    assert!(path.exists());
}

#[tokio::test]
async fn what_a_dead_worker_left_behind_is_replaced() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("s");
    for left in ["s", "s.new"] {
        // Dropping a listener leaves its file, as a killed process does.
        drop(std::os::unix::net::UnixListener::bind(directory.path().join(left)).unwrap());
    }
    std::fs::write(directory.path().join("s.lock"), "4194304\n").unwrap();
    let bound = Bound::bind(&path).unwrap();
    assert!(UnixStream::connect(bound.path()).await.is_ok());
    assert!(!directory.path().join("s.new").exists());
}

#[tokio::test]
async fn paths_that_cannot_be_a_socket_are_refused_with_a_sentence() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("file");
    std::fs::write(&file, "mine").unwrap();
    let error = Bound::bind(&file).unwrap_err().to_string();
    assert!(error.contains("is not a socket"), "{error}");
    assert_eq!(std::fs::read_to_string(&file).unwrap(), "mine");
    let long = directory.path().join("x".repeat(120));
    let error = Bound::bind(&long).unwrap_err().to_string();
    assert!(error.contains("at most 103 bytes"), "{error}");
    let nowhere = directory.path().join("no/such/directory/s");
    let error = Bound::bind(&nowhere).unwrap_err().to_string();
    assert!(error.contains("directory must exist"), "{error}");
    let error = Bound::bind(std::path::Path::new("/")).unwrap_err();
    assert!(matches!(error, SocketError::NoName(_)), "{error}");
}

#[tokio::test]
async fn a_connection_beyond_the_limit_is_told_so() {
    let scene = Scene::start();
    let mut open = Vec::new();
    for _ in 0..limits::MAX_CONNECTIONS {
        open.push(UnixStream::connect(scene.socket()).await.unwrap());
    }
    let answer = scene.get("/startupz").await;
    assert_eq!(answer.status, 503, "{}", answer.body);
    assert_eq!(json(&answer)["code"], "too-many-connections");
    open.clear();
    // Their places become free once the server has seen the ends.
    for _ in 0..100 {
        if scene.get("/startupz").await.status == 200 {
            return;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    panic!("the places did not become free");
}

#[tokio::test]
async fn nobody_there_is_a_sentence() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("s");
    let error = ask(&path, Method::GET, "/readyz", String::new(), PATIENCE)
        .await
        .unwrap_err();
    assert!(
        error.to_string().contains("no worker listens on"),
        "{error}"
    );
}
