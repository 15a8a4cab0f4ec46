//! Probes in both encodings.

use super::*;

#[tokio::test]
async fn a_worker_is_ready_from_its_first_join_on() {
    let scene = Scene::with(|directory| Settings {
        joined_file: Some(directory.path().join("joined")),
    });
    assert_eq!(scene.get("/startupz").await.status, 200);
    assert_eq!(scene.get("/healthz").await.status, 200);
    assert_eq!(scene.get("/readyz").await.status, 503);
    scene.health.send_modify(|health| health.joined = true);
    let joined = scene.directory.path().join("joined");
    for _ in 0..100 {
        if joined.exists() {
            break;
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    assert!(joined.exists(), "the first join was not noted");
    assert_eq!(scene.get("/readyz").await.body, "joined\n");
    scene.health.send_modify(|health| health.joined = false);
    assert_eq!(scene.get("/readyz").await.body, "joined-before\n");
    scene.health.send_modify(|health| health.alive = false);
    assert_eq!(scene.get("/healthz").await.status, 503);
}

#[tokio::test]
async fn grpc_health_says_the_same() {
    use tonic_health::pb::health_check_response::ServingStatus;
    use tonic_health::pb::{HealthCheckRequest, health_client::HealthClient};
    let scene = Scene::start();
    let mut client = HealthClient::new(scene.grpc().await);
    let request = |service: &str| HealthCheckRequest {
        service: service.into(),
    };
    let answer = client.check(request("")).await.unwrap().into_inner();
    assert_eq!(answer.status(), ServingStatus::NotServing);
    let mut watched = client
        .watch(request("lockstep.worker.v1.Worker"))
        .await
        .unwrap()
        .into_inner();
    let first = watched.message().await.unwrap().unwrap();
    assert_eq!(first.status(), ServingStatus::NotServing);
    scene.health.send_modify(|health| health.joined = true);
    let second = tokio::time::timeout(PATIENCE, watched.message()).await;
    assert_eq!(
        second.unwrap().unwrap().unwrap().status(),
        ServingStatus::Serving
    );
    let unknown = client.check(request("x")).await.unwrap_err();
    assert_eq!(unknown.code(), tonic::Code::NotFound);
}
