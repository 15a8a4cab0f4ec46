//! Every call as JSON over HTTP.

use super::*;

#[tokio::test]
async fn what_is_published_is_fetched_in_order_and_acknowledged() -> Outcome<()> {
    let (_scene, client) = alone().await?;
    let mut events = client.events().await?;
    let first = publish(&client, "customer-1", "one").await?;
    publish(&client, "customer-1", "zwei \u{fc}").await?;
    assert_eq!(first["stream"], "ORDERS");
    assert_eq!(first["duplicate"], false);

    let messages = fetch_all(&client, 2).await?;
    assert_eq!(messages[0]["payload"], "one");
    assert_eq!(messages[1]["payload"], "zwei \u{fc}");
    assert_eq!(messages[0]["partition"], first["partition"]);
    assert_eq!(messages[0]["sequence"], first["sequence"]);
    assert_eq!(messages[0]["key"], "customer-1");
    assert_eq!(messages[0]["attempt"], 1);
    let subject = format!("orders.{}.customer-1", first["partition"]);
    assert_eq!(messages[0]["subject"], subject.as_str());
    for time in ["timestamp", "deadline"] {
        let text = messages[0][time].as_str().unwrap_or_default();
        assert!(text.ends_with('Z') && text.len() == 30, "{time} {text}");
    }

    // Not acknowledged: the same again, first, and no further attempt.
    let again = fetch(&client, json!({"max_wait": "5s"})).await?;
    assert_eq!(again.body["redelivered"], 2, "{again:?}");
    assert_eq!(again.messages()[0]["sequence"], messages[0]["sequence"]);
    assert_eq!(again.messages()[0]["attempt"], 1);

    // One position covers everything up to it.
    let ack = json!({"positions": [position(&messages[1])], "wait": "COMMITTED"});
    let acked = client.post("/v1/ack", &ack).await?;
    let result = &acked.body["results"][0];
    assert_eq!(result["status"], "COMMITTED", "{acked:?}");
    assert!(result["committed"].as_u64() > messages[1]["sequence"].as_u64());
    let seen = events.wait_for("Committed").await?;
    assert_eq!(
        seen.body["committed"]["partition"],
        messages[0]["partition"]
    );
    let nothing = fetch(&client, json!({"max_wait": "200ms"})).await?;
    assert_eq!((nothing.status, nothing.messages().len()), (200, 0));
    Ok(())
}

#[tokio::test]
async fn a_single_acknowledgement_covers_one_message_alone() -> Outcome<()> {
    let (_scene, client) = alone().await?;
    for payload in ["a", "b", "c"] {
        publish(&client, "k", payload).await?;
    }
    let messages = fetch_all(&client, 3).await?;
    let ack = json!({"positions": [position(&messages[1])], "mode": "EACH"});
    let acked = client.post("/v1/ack", &ack).await?;
    assert_eq!(acked.body["results"][0]["status"], "ACCEPTED", "{acked:?}");
    let left = fetch_all(&client, 2).await?;
    assert_eq!(left[0]["payload"], "a");
    assert_eq!(left[1]["payload"], "c");
    Ok(())
}

#[tokio::test]
async fn an_acknowledgement_of_another_epoch_is_not_owned() -> Outcome<()> {
    let (_scene, client) = alone().await?;
    publish(&client, "k", "a").await?;
    let messages = fetch_all(&client, 1).await?;
    let mut old = position(&messages[0]);
    old["epoch"] = json!(messages[0]["epoch"].as_u64().unwrap_or(0) + 1);
    let acked = client.post("/v1/ack", &json!({"positions": [old]})).await?;
    assert_eq!(acked.status, 200);
    assert_eq!(acked.body["results"][0]["status"], "NOT_OWNED");
    assert_eq!(fetch_all(&client, 1).await?[0]["payload"], "a");
    Ok(())
}

#[tokio::test]
async fn a_nacked_message_comes_again_as_the_next_attempt_and_in_its_place() -> Outcome<()> {
    let (_scene, client) = alone().await?;
    publish(&client, "k", "a").await?;
    publish(&client, "k", "b").await?;
    let messages = fetch_all(&client, 2).await?;
    let nack = json!({"messages": [position(&messages[0])], "error": "no stock", "delay": "50ms"});
    let nacked = client.post("/v1/nack", &nack).await?;
    assert_eq!(nacked.status, 200, "{nacked:?}");
    let again = until("second attempt", SETTLED, async || {
        let reply = fetch(&client, json!({"max_wait": "1s"})).await;
        let reply = reply.map_err(|e| e.to_string())?;
        match reply.messages().first() {
            Some(first) if first["attempt"] == 2 => Ok(first.clone()),
            _ => Err(reply.body.to_string()),
        }
    });
    assert_eq!(again.await?["sequence"], messages[0]["sequence"]);
    let status = client.get("/v1/status").await?;
    let partition = status.body["partitions"].as_array().and_then(|all| {
        all.iter()
            .find(|p| p["partition"] == messages[0]["partition"])
    });
    assert_eq!(partition.map(|p| &p["head_attempts"]), Some(&json!(1)));
    Ok(())
}

#[tokio::test]
async fn a_message_with_an_id_is_stored_once() -> Outcome<()> {
    let (_scene, client) = alone().await?;
    let body = json!({
        "key": "k", "payload": "aGk=", "id": "order-1",
        "headers": {"traceparent": "00-a", "many": ["1", "2"]},
    });
    let first = client.post("/v1/publish", &body).await?;
    let second = client.post("/v1/publish", &body).await?;
    assert_eq!(first.body["duplicate"], false, "{first:?}");
    assert_eq!(second.body["duplicate"], true, "{second:?}");
    assert_eq!(first.body["sequence"], second.body["sequence"]);
    let messages = fetch_all(&client, 1).await?;
    assert_eq!(messages[0]["payload"], "hi");
    assert_eq!(messages[0]["headers"]["traceparent"], json!(["00-a"]));
    assert_eq!(messages[0]["headers"]["many"], json!(["1", "2"]));

    // Made from a consumed message: the message gives the id.
    let derived = json!({
        "key": "other", "payload": "", "derived_from": position(&messages[0]),
    });
    let first = client.post("/v1/publish", &derived).await?;
    let second = client.post("/v1/publish", &derived).await?;
    assert_eq!(first.body["duplicate"], false, "{first:?}");
    assert_eq!(second.body["duplicate"], true, "{second:?}");
    Ok(())
}

#[tokio::test]
async fn a_subject_is_published_to_as_it_is() -> Outcome<()> {
    let (_scene, client) = alone().await?;
    let body = json!({"subject": "orders.customer-9", "payload": ""});
    let published = client.post("/v1/publish", &body).await?;
    assert_eq!(published.status, 200, "{published:?}");
    assert_eq!(fetch_all(&client, 1).await?[0]["key"], "customer-9");
    // Nothing stores this one.
    let body = json!({"subject": "nowhere.at.all", "payload": ""});
    let refused = client.post("/v1/publish", &body).await?;
    assert!((400..=599).contains(&refused.status), "{refused:?}");
    assert!(refused.body["message"].is_string(), "{refused:?}");
    Ok(())
}

#[tokio::test]
async fn a_paused_partition_is_not_fed_until_it_is_resumed() -> Outcome<()> {
    let (_scene, client) = alone().await?;
    let p = publish(&client, "k", "before").await?["partition"].clone();
    let messages = fetch_all(&client, 1).await?;
    let paused = client
        .post("/v1/pause", &json!({"partitions": [p]}))
        .await?;
    assert_eq!(paused.status, 200, "{paused:?}");
    let ack = json!({"positions": [position(&messages[0])], "wait": "COMMITTED"});
    let acked = client.post("/v1/ack", &ack).await?;
    assert_eq!(acked.body["results"][0]["status"], "COMMITTED");
    publish(&client, "k", "meanwhile").await?;
    let nothing = fetch(&client, json!({"max_wait": "500ms"})).await?;
    assert_eq!(nothing.messages().len(), 0, "{nothing:?}");
    let status = client.get("/v1/status").await?;
    let paused = status.body["partitions"].as_array().map(|all| {
        let paused = all.iter().filter(|held| held["state"] == "PAUSED");
        paused
            .map(|held| held["partition"].clone())
            .collect::<Vec<_>>()
    });
    assert_eq!(paused, Some(vec![p]), "{status:?}");
    client.post("/v1/resume", &json!({})).await?;
    assert_eq!(fetch_all(&client, 1).await?[0]["payload"], "meanwhile");
    Ok(())
}

#[tokio::test]
async fn a_fetch_takes_no_more_than_it_is_told() -> Outcome<()> {
    let (_scene, client) = alone().await?;
    let mut of_p = 0;
    let p = publish(&client, "k0", "x").await?["partition"].clone();
    for n in 1..20 {
        let published = publish(&client, &format!("k{n}"), &"x".repeat(1000)).await?;
        of_p += usize::from(published["partition"] == p);
    }
    fetch_all(&client, 20).await?;
    let limited = fetch(&client, json!({"max_messages": 3, "max_wait": "1s"})).await?;
    assert_eq!(limited.messages().len(), 3);
    let limited = fetch(&client, json!({"max_bytes": 2500, "max_wait": "1s"})).await?;
    assert!((1..=3).contains(&limited.messages().len()), "{limited:?}");
    let limited = fetch(&client, json!({"partitions": [p], "max_wait": "1s"})).await?;
    assert_eq!(limited.messages().len(), of_p + 1);
    assert!(limited.messages().iter().all(|m| m["partition"] == p));
    Ok(())
}

#[tokio::test]
async fn a_waiting_fetch_is_answered_when_something_comes() -> Outcome<()> {
    let (_scene, client) = alone().await?;
    let waiting = fetch(&client, json!({"max_wait": "50s"}));
    let publishing = async {
        // The second look shows that the fetch is waiting: it was asked before.
        client.get("/v1/status").await?;
        publish(&client, "k", "a").await
    };
    let (fetched, published) = tokio::join!(waiting, publishing);
    published?;
    assert_eq!(fetched?.messages().len(), 1);
    Ok(())
}

#[tokio::test]
async fn large_messages_pass_and_too_large_ones_are_named() -> Outcome<()> {
    let (_scene, client) = alone().await?;
    let large = "x".repeat(900_000);
    publish(&client, "k", &large).await?;
    let messages = fetch_all(&client, 1).await?;
    assert_eq!(messages[0]["payload"].as_str().map(str::len), Some(900_000));
    // Beyond what the server takes, and beyond what the socket takes.
    for size in [2_000_000, 13_000_000] {
        let body = json!({
            "key": "k", "payload": "x".repeat(size), "payload_encoding": "TEXT",
        });
        let refused = client.post("/v1/publish", &body).await?;
        assert_eq!(refused.status, 413, "{size}");
        assert_eq!(refused.body["code"], "too-large");
    }
    publish(&client, "k", "small").await?;
    Ok(())
}

#[tokio::test]
async fn a_drained_member_says_so() -> Outcome<()> {
    let (_scene, client) = alone().await?;
    publish(&client, "k", "a").await?;
    let messages = fetch_all(&client, 1).await?;
    let draining = client.clone();
    let ack = async {
        // What the application has can still be acknowledged; who has nothing gets nothing more.
        let other = client.as_session("other");
        let refused = until("draining", SETTLED, async || {
            let reply = fetch(&other, json!({"max_wait": "0s"})).await;
            match reply {
                Ok(reply) if reply.status == 503 => Ok(reply),
                other => Err(format!("{other:?}")),
            }
        });
        let refused = refused.await?;
        assert_eq!(refused.body["code"], "draining");
        assert!(refused.head.to_lowercase().contains("retry-after: 1"));
        let ack = json!({"positions": [position(&messages[0])]});
        let acked = client.post("/v1/ack", &ack).await?;
        assert_ne!(acked.body["results"][0]["status"], "NOT_OWNED");
        Outcome::Ok(())
    };
    let body = json!({"timeout": "30s"});
    let (drained, acked) = tokio::join!(draining.post("/v1/drain", &body), ack);
    acked?;
    let drained = drained?;
    assert_eq!(drained.status, 200, "{drained:?}");
    assert_eq!(drained.body["unclean"], 0, "{drained:?}");
    let status = client.get("/v1/status").await?;
    assert_eq!(status.body["state"], "DRAINING");
    assert_eq!(status.body["partitions"], json!([]));
    Ok(())
}

#[tokio::test]
async fn status_says_what_the_member_is() -> Outcome<()> {
    let (_scene, client) = alone().await?;
    let status = client.get("/v1/status").await?.body;
    assert_eq!(status["group"], "default/orders");
    assert_eq!(status["member_id"], "w1");
    assert_eq!(status["state"], "ACTIVE");
    assert!(status["epoch"].as_u64() > Some(0));
    let lease = status["lease_remaining"].as_str().unwrap_or_default();
    assert!(lease.ends_with('s') && lease != "0s", "{status}");
    assert_eq!(status["nats"]["connected"], true);
    assert!(
        status["nats"]["version"]
            .as_str()
            .is_some_and(|version| version.starts_with("2."))
    );
    assert_eq!(status["app"]["connected"], true);
    assert_eq!(status["partitions"].as_array().map(Vec::len), Some(6));
    Ok(())
}
