//! The rules of reading a partition.

use lockstep::nats::{Broken, ReadEvent};
use lockstep_e2e::{NatsServer, until};

use super::setting::{
    SOON, connect, consumers, news, open, orders, plan, publish, read, sequences,
};

// P101, P102
#[tokio::test]
async fn a_partition_is_read_from_where_it_was_left_and_in_order() {
    let server = NatsServer::start().await.unwrap();
    let connection = connect(&server).await;
    orders(&connection, 30).await;
    publish(&connection, "orders.1.k", 1..=5).await;
    publish(&connection, "orders.0.k", 31..=40).await;
    let mut reader = open(&connection, plan(11));
    let messages = read(&mut reader, 30).await;
    let expected: Vec<u64> = (11..=30).chain(36..=45).collect();
    assert_eq!(sequences(&messages), expected);
    assert_eq!(messages.last().unwrap().pending, 0);
    reader.close().await;
    assert_eq!(
        consumers(&connection, &server.url(), "orders").await,
        [""; 0]
    );
}

// P105
#[tokio::test]
async fn a_consumer_deleted_before_its_first_message_is_made_anew_at_the_same_place() {
    let server = NatsServer::start().await.unwrap();
    let connection = connect(&server).await;
    orders(&connection, 10).await;
    let mut reader = open(&connection, plan(11));
    let url = server.url();
    let found = until("the reader's consumer", SOON, async || {
        consumers(&connection, &url, "orders")
            .await
            .pop()
            .ok_or("none")
    });
    let name = found.await.unwrap();
    let client = server.connect().await.unwrap();
    let subject = format!("$JS.API.CONSUMER.DELETE.orders.{name}");
    client.request(subject, "".into()).await.unwrap();
    let mut seen = Vec::new();
    let event = news(&mut reader, &mut seen).await;
    assert!(
        matches!(
            event,
            ReadEvent::Restarted {
                why: Broken::Gone(_)
            }
        ),
        "{event:?}"
    );
    publish(&connection, "orders.0.k", 11..=12).await;
    assert_eq!(sequences(&read(&mut reader, 2).await), [11, 12]);
    assert_eq!(seen, [0; 0]);
}
