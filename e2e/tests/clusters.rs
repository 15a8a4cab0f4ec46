//! The API level of the test clusters; nodes are in `cluster/node.rs`.

use lockstep_e2e::cluster::ApiServer;

#[tokio::test]
async fn an_api_server_answers_and_leaves_nothing_behind() {
    let server = ApiServer::start().await.unwrap();
    let client = server.client().await.unwrap();
    let version = client.apiserver_version().await.unwrap();
    assert_eq!(version.git_version, "v1.37.2");
    let folder = server.folder().to_owned();
    drop(server);
    assert!(!folder.exists());
}
