//! `group list | describe | members | offsets`

use std::time::Duration;

use lockstep::group::{MetaGeneration, Partition, Sequence, StopReason, Stopped};
use lockstep::wire::keys::Key;
use lockstep_e2e::process;
use lockstep_e2e::until::until_sync;
use serde_json::{Value, json};

use crate::plant::{self, Plant, heartbeat, inc, record};

/// Keys of each partition 0 to 3, among 4.
const KEYS: [&str; 4] = ["a", "b", "c", "d"];

/// Publishes `count` messages into each partition.
async fn fill(plant: &Plant, count: usize) {
    for (partition, key) in (0..).zip(KEYS) {
        let input = "x\n".repeat(count);
        let finished = plant
            .run_with(&format!("publish orders --key {key} --lines"), &input)
            .await;
        assert_eq!(finished.code, Some(0), "{finished:?}");
        let expected = format!("partition={partition} ");
        assert!(
            finished.stdout.lines().all(|l| l.starts_with(&expected)),
            "{finished:?}"
        );
    }
}

fn column(row: &Value, name: &str) -> Value {
    row.get(name)
        .unwrap_or_else(|| panic!("no {name} in {row}"))
        .clone()
}

#[tokio::test]
async fn describe_shows_head_and_rows_as_a_table() {
    let plant = Plant::new().await;
    fill(&plant, 3).await;
    let table = plant.ok("group describe orders").await;
    let lines: Vec<&str> = table.lines().collect();
    assert_eq!(lines[0], "Group:       default/orders");
    assert_eq!(lines[1], "State:       Stable");
    assert_eq!(lines[2], "Epoch:       7");
    assert!(
        lines[3].starts_with("Coordinator: host-1 (heard "),
        "{}",
        lines[3]
    );
    assert_eq!(lines[4], "Members:     2");
    assert_eq!(lines[5], "Total lag:   16");
    assert_eq!(lines[6], "");
    let cells: Vec<Vec<&str>> = lines[7..]
        .iter()
        .map(|l| l.split_whitespace().collect())
        .collect();
    let header = "PARTITION STREAM OWNER EPOCH COMMITTED END LAG IN-FLIGHT STATE";
    assert_eq!(cells[0], header.split(' ').collect::<Vec<_>>());
    assert_eq!(
        cells[1],
        [
            "0", "ORDERS", "pod-a", "100", "1", "13", "3", "1", "feeding"
        ]
    );
    assert_eq!(
        cells[4],
        [
            "3", "ORDERS", "pod-b", "103", "1", "13", "5", "1", "feeding"
        ]
    );
    assert_eq!(cells.len(), 5);
}

#[tokio::test]
async fn describe_says_the_same_as_json_and_as_yaml() {
    let plant = Plant::new().await;
    fill(&plant, 1).await;
    let json = plant.json("group describe orders -o json").await;
    assert_eq!(json["group"], "default/orders");
    assert_eq!(json["state"], "Stable");
    assert_eq!((&json["epoch"], &json["term"]), (&json!(7), &json!(4)));
    assert_eq!(
        (&json["coordinator"], &json["members"]),
        (&json!("host-1"), &json!(2))
    );
    assert_eq!(json["total_lag"], 16);
    let row = &json["partitions"][2];
    for (name, expected) in [
        ("partition", json!(2)),
        ("stream", json!("ORDERS")),
        ("owner", json!("pod-b")),
        ("epoch", json!(102)),
        ("committed", json!(1)),
        ("end", json!(5)),
        ("lag", json!(5)),
        ("in_flight", json!(1)),
        ("state", json!("feeding")),
    ] {
        assert_eq!(column(row, name), expected, "{name}");
    }
    let yaml = plant.ok("group describe orders -o yaml").await;
    assert!(yaml.contains("\ntotal_lag: 16\n"), "{yaml}");
    assert!(yaml.contains("owner: pod-b"), "{yaml}");
}

#[tokio::test]
async fn without_an_owner_lag_is_counted_or_bounded_and_never_guessed() {
    let plant = Plant::new().await;
    fill(&plant, 5).await;
    let stream = plant.stream().await;
    let mut document = plant::document();
    for p in &mut document.partitions {
        (p.owner, p.target) = (None, None);
    }
    let bytes = lockstep::wire::group::encode(&document).unwrap();
    plant.put(&Key::Group, bytes).await;
    // Partition 0: nothing committed; 1: all; 2: something; 3: a position beyond the end.
    for (p, next) in [(1, 21), (2, 13), (3, 22)] {
        plant.put_record(p, &record(p, "a1", next, &stream)).await;
    }
    let json = plant.json("group describe orders -o json").await;
    let lag = |p: usize| {
        (
            json["partitions"][p]["lag"].clone(),
            json["partitions"][p]["lag_source"].clone(),
        )
    };
    assert_eq!(lag(0), (json!(5), json!("counted")));
    assert_eq!(lag(1), (json!(0), json!("counted")));
    assert_eq!(lag(2), (Value::Null, json!("at_most")));
    assert_eq!(lag(3), (Value::Null, json!("unknown")));
    assert_eq!(
        (&json["total_lag"], &json["state"]),
        (&Value::Null, &json!("PartitionsUnassigned"))
    );
    let table = plant.ok("group describe orders").await;
    // Five are stored of partition 2; eight sequences are left.
    assert!(table.contains("  <=5  "), "{table}");
    assert!(table.contains("Total lag:   unknown"), "{table}");
}

#[tokio::test]
async fn list_members_and_offsets_show_the_group() {
    let plant = Plant::new().await;
    let meta = plant.meta().await;
    plant::empty_group(&plant.connection, "shop/returns", &meta).await;
    let list = plant.json("group list -o json").await;
    let names: Vec<&Value> = list
        .as_array()
        .unwrap()
        .iter()
        .map(|g| &g["group"])
        .collect();
    assert_eq!(names, ["default/orders", "shop/returns"]);
    assert_eq!(
        (&list[0]["state"], &list[1]["state"]),
        (&json!("Stable"), &json!("NoCoordinator"))
    );
    assert_eq!(list[0]["assigned"], 4);
    let table = plant.ok("group list").await;
    assert!(table.starts_with("GROUP"), "{table}");
    assert_eq!(table.lines().count(), 3, "{table}");

    let members = plant.json("group members orders -o json").await;
    let first = &members["members"][0];
    assert_eq!(
        (&first["id"], &first["incarnation"]),
        (&json!("pod-a"), &json!("a1"))
    );
    assert_eq!(
        (&first["state"], &first["partitions"]),
        (&json!("active"), &json!([0, 1]))
    );
    assert_eq!(
        (&first["in_flight"], &first["app_connected"]),
        (&json!(2), &json!(true))
    );
    let table = plant.ok("group members orders").await;
    let row: Vec<&str> = table.lines().nth(2).unwrap().split_whitespace().collect();
    assert_eq!(
        row[..7],
        ["pod-b", "b1", "active", "zone-1", "connected", "2,3", "2"]
    );

    let stream = plant.stream().await;
    let mut stopped = record(1, "a1", 9, &stream);
    stopped.stopped = Some(Stopped {
        seq: Sequence(9),
        reason: StopReason::MessageStuck,
        detail: "declined 5 times".to_owned(),
        generation: MetaGeneration(3),
    });
    plant.put_record(1, &stopped).await;
    let offsets = plant.json("group offsets orders -o json").await;
    let row = &offsets["partitions"][1];
    assert_eq!(
        (&row["committed"], &row["stopped"]),
        (&json!(9), &json!("MessageStuck"))
    );
    let table = plant.ok("group offsets orders").await;
    assert!(
        table.contains("stopped (MessageStuck)  declined 5 times"),
        "{table}"
    );
}

#[tokio::test]
async fn damaged_documents_are_named_and_the_rest_is_shown() {
    let plant = Plant::new().await;
    plant
        .put(&Key::Offset(Partition(0)), "{\"format\":1,")
        .await;
    plant.delete_key(&Key::Offset(Partition(1))).await;
    plant.put(&Key::Member(inc("a1")), "[]").await;
    plant
        .put(&Key::Foreign("note".to_owned()), "not ours")
        .await;
    let json = plant.json("group describe orders -o json").await;
    assert_eq!(json["state"], "OffsetLost");
    let states: Vec<&Value> = json["partitions"]
        .as_array()
        .unwrap()
        .iter()
        .map(|p| &p["state"])
        .collect();
    assert_eq!(states, ["offset_lost", "offset_lost", "feeding", "feeding"]);
    let problems = json["problems"].to_string();
    for part in [
        "member.a1 is ignored",
        "partition 0 is damaged",
        "somebody deleted the key",
    ] {
        assert!(problems.contains(part), "no {part:?} in {problems}");
    }
    assert!(!problems.contains("note"), "{problems}");

    plant.put(&Key::Group, "{\"format\":99}").await;
    let table = plant.ok("group describe orders").await;
    assert!(table.contains("State:       Damaged"), "{table}");
    assert!(table.contains("format 99"), "{table}");

    plant.put(&Key::Meta, "nonsense").await;
    plant
        .fails(
            "group describe orders",
            1,
            &["default/orders", "key meta", "damaged"],
        )
        .await;
    let list = plant.json("group list -o json").await;
    assert_eq!(
        list,
        json!([{ "group": "default/orders", "state": "Damaged" }])
    );
}

#[tokio::test]
async fn a_stream_that_is_gone_is_a_problem_and_no_zero() {
    let plant = Plant::new().await;
    lockstep::nats::streams::delete(&plant.connection, "ORDERS")
        .await
        .unwrap();
    let json = plant.json("group describe orders -o json").await;
    assert!(
        json["problems"]
            .to_string()
            .contains("stream ORDERS does not exist"),
        "{json}"
    );
    assert_eq!(json["partitions"][0]["end"], Value::Null);
    // What the owners say is still known.
    assert_eq!(
        (&json["total_lag"], &json["total_lag_source"]),
        (&json!(16), &json!("reported"))
    );
}

#[tokio::test]
async fn watch_looks_again_until_it_is_ended() {
    let plant = Plant::new().await;
    let folder = tempfile::tempdir().unwrap();
    let url = plant.server.url();
    let words = [
        "group",
        "describe",
        "orders",
        "-o",
        "json",
        "--watch",
        "--nats-url",
        &url,
    ];
    let mut child = process::start_lockstep(&words, &folder.path().join("watch.log")).unwrap();
    let epochs = |wanted: usize, epoch: u64| {
        let path = child.output().to_owned();
        until_sync(
            format!("{wanted} looks"),
            Duration::from_secs(30),
            move || {
                let text = std::fs::read_to_string(&path).unwrap();
                let whole = text.lines().filter(|l| l.ends_with('}'));
                let shown: Vec<Value> = whole.map(|l| serde_json::from_str(l).unwrap()).collect();
                let such = shown.iter().filter(|v| v["epoch"] == epoch).count();
                if such >= wanted { Ok(()) } else { Err(text) }
            },
        )
    };
    epochs(2, 7).await.unwrap();
    let mut document = plant::document();
    document.epoch = lockstep::group::GroupEpoch(8);
    plant
        .put(
            &Key::Group,
            lockstep::wire::group::encode(&document).unwrap(),
        )
        .await;
    epochs(1, 8).await.unwrap();
    assert!(child.is_running());
    child.kill().unwrap();
}

#[tokio::test]
async fn a_member_that_fell_silent_is_shown_as_silent() {
    let plant = Plant::new().await;
    let mut silent = heartbeat("pod-a", &[0, 1], 2);
    silent.session_timeout = Duration::ZERO;
    let mut meta = plant.meta().await;
    meta.membership.session_timeout = Duration::ZERO;
    plant.put_meta(&meta).await;
    plant.put_member("a1", &silent).await;
    let shown = async || {
        let json = plant.json("group members orders -o json").await;
        let state = json["members"][0]["state"].clone();
        if state == "silent" {
            Ok(())
        } else {
            Err(state.to_string())
        }
    };
    lockstep_e2e::until("silence", Duration::from_secs(20), shown)
        .await
        .unwrap();
}

#[tokio::test]
async fn what_is_not_there_is_said_with_what_to_do() {
    let plant = Plant::new().await;
    for command in [
        "describe", "members", "offsets", "pause", "resume", "adopt", "delete",
    ] {
        let line = format!("group {command} nobody");
        plant
            .fails(
                &line,
                1,
                &["there is no group default/nobody", "lockstep group list"],
            )
            .await;
    }
    let finished = plant.run("group describe UPPER").await;
    assert_eq!(finished.code, Some(2));
    assert!(
        finished
            .stderr
            .contains("group name \"UPPER\" is not valid"),
        "{finished:?}"
    );
}
