//! Connections over TLS, from the Secrets that a `NatsConnection` names.

use lockstep_e2e::NatsServer;
use lockstep_e2e::nats_server::certificate;

use crate::stage::{Stage, group};

fn indented(name: &str) -> String {
    let text = std::fs::read_to_string(certificate(name)).unwrap();
    let lines = text.lines().map(|line| format!("    {line}\n"));
    lines.collect()
}

fn secret(name: &str, files: &[(&str, &str)]) -> String {
    let data = files
        .iter()
        .map(|(key, file)| format!("  {key}: |\n{}", indented(file)));
    format!(
        "apiVersion: v1\nkind: Secret\nmetadata: {{name: {name}}}\nstringData:\n{}",
        data.collect::<String>()
    )
}

fn over_tls(nats: &NatsServer, tls: &str) -> String {
    format!(
        "apiVersion: lockstep.dev/v1alpha1\n\
         kind: NatsConnection\n\
         metadata: {{name: default}}\n\
         spec: {{servers: [\"{}\"], tls: {tls}}}\n",
        nats.url()
    )
}

/// A controller, and Secrets with the authority's certificate and a client's.
async fn with_secrets() -> Stage {
    let mut stage = Stage::without_controller().await;
    stage.controller("c1");
    stage
        .apply(&secret("authority", &[("ca.crt", "ca.crt")]))
        .await;
    let client = [("tls.crt", "client.crt"), ("tls.key", "client.key")];
    stage.apply(&secret("client", &client)).await;
    stage
}

/// With these settings the server is reached, and groups can be provided; or it cannot be reached.
async fn reaches(stage: &Stage, nats: &NatsServer, tls: &str, reached: bool) {
    stage.apply(&over_tls(nats, tls)).await;
    let ready = if reached {
        ("True", "AsExpected")
    } else {
        ("False", "Unreachable")
    };
    stage.condition(("nconn", "default"), "Ready", ready).await;
    if reached {
        stage.apply(&group("orders", "")).await;
        stage.ready("orders", "NoMembers").await;
    }
}

#[tokio::test]
async fn a_server_is_trusted_by_the_authority_in_a_secret() {
    let stage = with_secrets().await;
    let nats = NatsServer::options().tls().start().await.unwrap();
    // Without the authority nobody vouches for the server.
    reaches(&stage, &nats, "{}", false).await;
    reaches(&stage, &nats, "{caSecretRef: {name: authority}}", true).await;
}

#[tokio::test]
async fn a_server_that_asks_for_a_certificate_is_shown_the_one_of_a_secret() {
    let stage = with_secrets().await;
    let nats = NatsServer::options().mutual_tls().start().await.unwrap();
    reaches(&stage, &nats, "{caSecretRef: {name: authority}}", false).await;
    let with = "{caSecretRef: {name: authority}, clientCertSecretRef: {name: client}}";
    reaches(&stage, &nats, with, true).await;
}

#[tokio::test]
async fn a_server_that_waits_for_the_handshake_is_spoken_to_first() {
    let stage = with_secrets().await;
    let nats = NatsServer::options().mutual_tls().handshake_first();
    let nats = nats.start().await.unwrap();
    let of = |first: bool| {
        let secrets = "caSecretRef: {name: authority}, clientCertSecretRef: {name: client}";
        format!("{{{secrets}, handshakeFirst: {first}}}")
    };
    reaches(&stage, &nats, &of(true), true).await;
    // Who waits for the server's word first waits in vain.
    reaches(&stage, &nats, &of(false), false).await;
}
