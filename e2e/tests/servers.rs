//! The servers that all other tests stand on.

use std::time::Duration;

use async_nats::jetstream;
use lockstep_e2e::nats_server::certificate;
use lockstep_e2e::{NatsCluster, NatsServer, until};

async fn stored(client: &async_nats::Client, subject: &'static str) -> Result<u64, String> {
    let context = jetstream::new(client.clone());
    let ack = context
        .publish(subject, "x".into())
        .await
        .map_err(|error| error.to_string())?;
    Ok(ack.await.map_err(|error| error.to_string())?.sequence)
}

fn stream(name: &str, replicas: usize) -> jetstream::stream::Config {
    jetstream::stream::Config {
        name: name.to_owned(),
        subjects: vec![format!("{}.*", name.to_lowercase())],
        num_replicas: replicas,
        ..Default::default()
    }
}

#[tokio::test]
async fn a_killed_server_comes_back_on_its_port_with_its_store() {
    let mut server = NatsServer::start().await.unwrap();
    let client = server.connect().await.unwrap();
    jetstream::new(client.clone())
        .create_stream(stream("A", 1))
        .await
        .unwrap();
    assert_eq!(stored(&client, "a.1").await, Ok(1));

    let before = server.pid();
    server.kill().unwrap();
    assert_eq!(server.pid(), None);
    server.restart().await.unwrap();
    assert_ne!(server.pid(), before);

    let second = until("a stored message", Duration::from_secs(20), async || {
        stored(&client, "a.2").await
    });
    assert!(second.await.unwrap() >= 2);
}

#[tokio::test]
async fn an_emptied_store_has_forgotten_its_streams() {
    let mut server = NatsServer::start().await.unwrap();
    let context = jetstream::new(server.connect().await.unwrap());
    context.create_stream(stream("A", 1)).await.unwrap();
    server.restart().await.unwrap();
    let context = jetstream::new(server.connect().await.unwrap());
    assert!(context.get_stream("A").await.is_ok());
    server.restart_empty().await.unwrap();
    let context = jetstream::new(server.connect().await.unwrap());
    assert!(context.get_stream("A").await.is_err());
}

#[tokio::test]
async fn a_paused_server_is_silent_until_it_goes_on() {
    let mut server = NatsServer::start().await.unwrap();
    let client = server.connect().await.unwrap();
    let context = jetstream::new(client.clone());
    server.pause().unwrap();
    let asked = tokio::time::timeout(Duration::from_millis(300), context.query_account());
    assert!(asked.await.is_err(), "a stopped process answered");
    server.resume().unwrap();
    context.query_account().await.unwrap();
}

#[tokio::test]
async fn settings_reach_the_server() {
    let users = r#"authorization { users: [{user: "a", password: "b"}] }"#;
    let options = NatsServer::options()
        .max_payload(4096)
        .config(users)
        .jetstream("domain: hub");
    let server = options.start().await.unwrap();
    assert!(
        async_nats::connect(server.url()).await.is_err(),
        "no password was asked for"
    );
    let user = async_nats::ConnectOptions::with_user_and_password("a".into(), "b".into());
    let client = user.connect(server.url()).await.unwrap();
    assert_eq!(client.server_info().max_payload, 4096);
    let context = jetstream::with_domain(client, "hub");
    context.create_stream(stream("A", 1)).await.unwrap();
}

#[tokio::test]
async fn mutual_tls_asks_for_the_client_certificate() {
    let server = NatsServer::options().mutual_tls().start().await.unwrap();
    let trusting = || {
        async_nats::ConnectOptions::new()
            .require_tls(true)
            .add_root_certificates(certificate("ca.crt"))
    };
    assert!(
        trusting().connect(server.url()).await.is_err(),
        "no certificate was asked for"
    );
    trusting()
        .add_client_certificate(certificate("client.crt"), certificate("client.key"))
        .connect(server.url())
        .await
        .unwrap();
}

#[tokio::test]
async fn a_cluster_of_three_survives_the_leader_of_a_stream() {
    let mut cluster = NatsCluster::start(3).await.unwrap();
    let client = async_nats::connect(cluster.urls()).await.unwrap();
    jetstream::new(client.clone())
        .create_stream(stream("A", 3))
        .await
        .unwrap();
    let leader = cluster.leader_of("A").await.unwrap();
    assert_eq!(stored(&client, "a.1").await, Ok(1));
    cluster.servers[leader].kill().unwrap();
    let stored = until("a stored message", Duration::from_secs(40), async || {
        stored(&client, "a.2").await
    });
    assert!(stored.await.unwrap() >= 2);
    assert_ne!(cluster.leader_of("A").await.unwrap(), leader);
}
