//! Connections: how they identify themselves, and what they say when they cannot.

use std::path::{Path, PathBuf};
use std::time::Duration;

use lockstep::nats::{
    Auth, CheckError, ClientCertificate, ConnectError, Connection, ConnectionEvent, Options,
    Outgoing, PublishOutcome, Role, SecretFolder, Standing, Tls, WatchEvent, publish, streams,
};
use lockstep_e2e::nats_server::certificate;
use lockstep_e2e::proxy::{Mode, Proxy};
use lockstep_e2e::{NatsServer, until};

use super::setting::{SOON, bucket, connect, connect_to, servers};

async fn attempt(options: &Options) -> Connection {
    Connection::connect(options, &Role::Cli, "test")
        .await
        .unwrap()
}

async fn is_usable(options: &Options) {
    let connection = attempt(options).await;
    let checked = tokio::time::timeout(SOON, connection.check_version()).await;
    checked.expect("no connection").unwrap();
}

/// Waits until the connection says what is wrong with it.
async fn complaint(connection: &Connection) -> String {
    let said = until("a complaint", SOON, async || match connection.standing() {
        Standing::Down { why: Some(why) } => Ok(why),
        standing => Err(format!("{standing:?}")),
    });
    said.await.unwrap()
}

fn file(folder: &Path, name: &str, content: &str) -> PathBuf {
    let path = folder.join(name);
    std::fs::write(&path, content).unwrap();
    path
}

#[tokio::test]
async fn a_password_from_a_file_is_used_and_a_wrong_one_is_named() {
    let users = "authorization { users: [{user: lock, password: \"st ep\"}] }";
    let server = NatsServer::options().config(users).start().await.unwrap();
    let folder = tempfile::tempdir().unwrap();
    let with = |content| Options {
        auth: Auth::Password {
            user: "lock".to_owned(),
            file: file(folder.path(), "password", content),
        },
        ..Options::for_url(server.url())
    };
    is_usable(&with("st ep\n")).await;
    let refused = attempt(&with("wrong")).await;
    let why = complaint(&refused).await;
    assert!(why.contains("refuses these credentials"), "{why}");
    assert!(!refused.is_up());
}

#[tokio::test]
async fn a_token_from_a_folder_is_used_and_a_wrong_one_is_named() {
    let token = "authorization { token: \"st ep\" }";
    let server = NatsServer::options().config(token).start().await.unwrap();
    let folder = tempfile::tempdir().unwrap();
    let with = |content| {
        file(folder.path(), "token", content);
        Options {
            auth: Auth::Folder(SecretFolder::new(folder.path())),
            ..Options::for_url(server.url())
        }
    };
    is_usable(&with("st ep\n")).await;
    let why = complaint(&attempt(&with("wrong")).await).await;
    assert!(why.contains("refuses these credentials"), "{why}");
}

#[tokio::test]
async fn an_nkey_from_a_file_is_used() {
    // A pair made for this test alone.
    let seed = "SUAFJN6T5IZDC43MFYWGCSGBAYJUKTSYMTF36MTS3E45GMXOQKHZP66BWM";
    let public = "UA7YUPK3KMCWTNZLSB4JUVEQRKGBHNGIU7MWBWMW7WS2CBICRHXILYOM";
    let users = format!("authorization {{ users: [{{nkey: {public}}}] }}");
    let server = NatsServer::options().config(&users).start().await.unwrap();
    let folder = tempfile::tempdir().unwrap();
    let options = Options {
        auth: Auth::Nkey(file(folder.path(), "seed", &format!("{seed}\n"))),
        ..Options::for_url(server.url())
    };
    is_usable(&options).await;
}

#[tokio::test]
async fn a_credentials_file_is_used() {
    // An operator made for this test alone, who trusts nobody else's accounts.
    let token = |name| std::fs::read_to_string(certificate(name)).unwrap();
    let preload = format!(
        "AC3X3FE6HQUXLPSVFDK5C2BRDFVP7FFQODTSTZJHYAF73QJDT7VJIQSJ: {}
         ADX6QP62A6IDK4UFFPRCGU4THXTJJBODFMAZ4XAZNWMCO6MGUQ5JNK2O: {}",
        token("app.jwt"),
        token("system.jwt")
    );
    let operator = certificate("operator.jwt");
    let trust = format!(
        "operator: \"{}\"\nresolver: MEMORY\nresolver_preload {{\n{preload}\n}}",
        operator.display()
    );
    let server = NatsServer::options().config(&trust).start().await.unwrap();
    let with = |auth| Options {
        auth,
        ..Options::for_url(server.url())
    };
    let connection = attempt(&with(Auth::Credentials(certificate("member.creds")))).await;
    tokio::time::timeout(SOON, connection.up())
        .await
        .expect("not let in");
    let refused = attempt(&with(Auth::None)).await;
    let why = complaint(&refused).await;
    assert!(why.contains("refuses these credentials"), "{why}");
}

#[tokio::test]
async fn a_certificate_authority_and_a_client_certificate_are_used() {
    let server = NatsServer::options().mutual_tls().start().await.unwrap();
    let ca = Some(certificate("ca.crt"));
    let client = Some(ClientCertificate {
        cert: certificate("client.crt"),
        key: certificate("client.key"),
    });
    let with = |ca, client| Options {
        tls: Tls {
            ca,
            client,
            ..Tls::default()
        },
        ..Options::for_url(server.url())
    };
    is_usable(&with(ca.clone(), client)).await;
    // Without our certificate the server hangs up.
    let refused = attempt(&with(ca, None)).await;
    complaint(&refused).await;
    assert!(!refused.is_up());
}

#[tokio::test]
async fn a_server_that_says_nothing_before_tls_is_reached_by_a_handshake_at_first() {
    let server = NatsServer::options().handshake_first();
    let server = server.start().await.unwrap();
    let with = |handshake_first| Options {
        tls: Tls {
            ca: Some(certificate("ca.crt")),
            handshake_first,
            ..Tls::default()
        },
        ..Options::for_url(server.url())
    };
    is_usable(&with(true)).await;
    let waits = attempt(&with(false)).await;
    complaint(&waits).await;
    assert!(!waits.is_up());
}

#[tokio::test]
async fn what_reads_goes_on_when_another_client_takes_over() {
    let server = servers().await;
    let folder = tempfile::tempdir().unwrap();
    let options = Options {
        auth: Auth::Folder(SecretFolder::new(folder.path())),
        ..Options::for_url(server.url())
    };
    let connection = attempt(&options).await;
    let bucket = bucket(&server, &connection).await;
    let mut watch = bucket.watch(&[lockstep::nats::KeyFilter::Group]);
    loaded(&mut watch).await;
    let mut events = connection.events();
    file(folder.path(), "token", "unused");
    let connected = async { while events.recv().await != Ok(ConnectionEvent::Connected) {} };
    tokio::time::timeout(SOON, connected).await.unwrap();
    assert!(connection.is_up());
    loaded(&mut watch).await; // anew
    // The former client is closed, and nothing of it is left.
    until("one connection", SOON, async || {
        let page = server.servers[0]
            .inspect("/connz")
            .await
            .map_err(|e| e.to_string())?;
        let count = page["num_connections"].as_u64();
        if count == Some(1) {
            Ok(())
        } else {
            Err(page.to_string())
        }
    })
    .await
    .unwrap();
}

async fn loaded(watch: &mut lockstep::nats::Watch) {
    let loaded = async { while watch.next().await != Some(WatchEvent::Loaded) {} };
    tokio::time::timeout(SOON, loaded).await.unwrap();
}

#[tokio::test]
async fn files_that_cannot_be_used_are_refused_before_anything_is_tried() {
    let folder = tempfile::tempdir().unwrap();
    let nothing = file(folder.path(), "nothing", "nothing\n");
    let options = [
        Options {
            auth: Auth::Credentials(nothing.clone()),
            ..Options::default()
        },
        Options {
            auth: Auth::Nkey(nothing.clone()),
            ..Options::default()
        },
        Options {
            tls: Tls {
                ca: Some(nothing.clone()),
                ..Tls::default()
            },
            ..Options::default()
        },
    ];
    for options in options {
        let refused = Connection::connect(&options, &Role::Cli, "test").await;
        let Err(ConnectError::File { path, .. }) = refused else {
            panic!("{options:?} was taken");
        };
        assert_eq!(path, nothing.display().to_string());
    }
}

#[tokio::test]
async fn an_account_without_jetstream_is_named() {
    let accounts = "accounts { PLAIN { users: [{user: a, password: b}] } }";
    let server = NatsServer::options()
        .config(accounts)
        .start()
        .await
        .unwrap();
    let url = server.url().replace("nats://", "nats://a:b@");
    let connection = attempt(&Options::for_url(url)).await;
    let checked = tokio::time::timeout(SOON, connection.check_version()).await;
    let error = checked.expect("no connection").unwrap_err();
    assert!(matches!(error, CheckError::NoJetStream { .. }), "{error}");
}

#[tokio::test]
async fn a_member_needs_no_permission_beyond_its_inbox_to_know_the_server() {
    let narrow = "authorization { users: [{user: a, password: b, permissions: {
        publish: [\"nothing\"], subscribe: [\"_INBOX.lockstep.shop.orders.>\"] }}] }";
    let server = NatsServer::options().config(narrow).start().await.unwrap();
    let url = server.url().replace("nats://", "nats://a:b@");
    let role = Role::Member("shop/orders".parse().unwrap());
    let options = Options::for_url(url);
    let connection = Connection::connect(&options, &role, "test").await.unwrap();
    let checked = tokio::time::timeout(SOON, connection.check_version()).await;
    checked.expect("no connection").unwrap();
    assert!(connection.server().unwrap().version.starts_with("2."));
}

#[tokio::test]
async fn a_connection_waits_for_a_server_that_is_not_there_yet() {
    let mut server = NatsServer::start().await.unwrap();
    server.kill().unwrap();
    let connection = attempt(&Options::for_url(server.url())).await;
    complaint(&connection).await;
    assert!(!connection.is_up());
    server.restart().await.unwrap();
    tokio::time::timeout(SOON, connection.up()).await.unwrap();
    connection.check_version().await.unwrap();
}

#[tokio::test]
async fn a_path_that_has_gone_silent_is_given_up_within_seconds() {
    let server = NatsServer::start().await.unwrap();
    let proxy = Proxy::before(&server).await.unwrap();
    let connection = attempt(&Options::for_url(proxy.url())).await;
    connection.up().await;
    let mut events = connection.events();
    proxy.set(Mode::Freeze);
    let gone = tokio::time::timeout(Duration::from_secs(15), async {
        while events.recv().await != Ok(ConnectionEvent::Disconnected) {}
    });
    gone.await.expect("a half-open connection was not noticed");
    proxy.cut();
    proxy.set(Mode::Pass);
    tokio::time::timeout(SOON, connection.up()).await.unwrap();
}

#[tokio::test]
async fn what_is_larger_than_the_server_takes_is_refused_with_both_sizes() {
    let server = NatsServer::options()
        .max_payload(4096)
        .start()
        .await
        .unwrap();
    let connection = connect_to(&server.url()).await;
    let message = Outgoing {
        subject: "orders.k".to_owned(),
        headers: Vec::new(),
        payload: vec![0; 5000].into(),
        id: None,
    };
    let outcome = publish(&connection, message).await;
    let PublishOutcome::TooLarge { size, limit } = outcome else {
        panic!("{outcome:?}");
    };
    assert!(size >= 5000, "{size}");
    assert_eq!(limit, 4096);
}

#[tokio::test]
async fn a_publish_says_whether_its_id_was_there_already_and_whether_a_stream_takes_it() {
    let server = servers().await;
    let connection = connect(&server).await;
    let message = || Outgoing {
        subject: "orders.k".to_owned(),
        headers: vec![("kind".to_owned(), "a".to_owned())],
        payload: "1".into(),
        id: Some("id-1".to_owned()),
    };
    let outcome = publish(&connection, message()).await;
    assert!(
        matches!(outcome, PublishOutcome::NoStream { .. }),
        "{outcome:?}"
    );
    let plan = streams::StreamPlan::plain("orders", vec!["orders.*".to_owned()]);
    streams::create(&connection, &plan).await.unwrap();
    for expected in [false, true] {
        let PublishOutcome::Stored {
            stream,
            sequence,
            duplicate,
        } = publish(&connection, message()).await
        else {
            panic!("not stored");
        };
        assert_eq!(
            (stream.as_str(), sequence.0, duplicate),
            ("orders", 1, expected)
        );
    }
}

#[tokio::test]
async fn closing_a_connection_ends_what_reads_through_it() {
    let server = servers().await;
    let connection = connect(&server).await;
    let bucket = bucket(&server, &connection).await;
    let mut watch = bucket.watch(&[lockstep::nats::KeyFilter::Group]);
    watch.next().await;
    tokio::time::timeout(SOON, connection.close())
        .await
        .unwrap();
    let ended = tokio::time::timeout(SOON, async { while watch.next().await.is_some() {} });
    ended.await.expect("the watch goes on");
}
