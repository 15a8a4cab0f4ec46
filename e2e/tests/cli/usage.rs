//! Flags, variables, exit codes.

use crate::plant::{self, Plant, refused, run};

#[tokio::test]
async fn help_and_version_are_data_and_exit_0() {
    for words in [
        vec!["--help"],
        vec!["--version"],
        vec!["group", "describe", "--help"],
    ] {
        let finished = run(&words, "", &[]).await;
        assert_eq!(
            (finished.code, finished.stderr.as_str()),
            (Some(0), ""),
            "{words:?}"
        );
        assert!(finished.stdout.contains("lockstep"), "{words:?}");
    }
}

#[tokio::test]
async fn what_cannot_be_meant_exits_2_and_prints_no_data() {
    for words in [
        vec![],
        vec!["grouup", "list"],
        vec!["group"],
        vec!["group", "list", "-o", "xml"],
        vec!["group", "list", "--nats-user", "u"],
        vec!["group", "list", "--log-level", "loud"],
        vec!["group", "list", "--bucket-prefix", "a_b"],
        vec!["group", "reset-offsets", "orders"],
        vec!["completions", "tcsh"],
    ] {
        let finished = run(&words, "", &[]).await;
        assert_eq!(
            (finished.code, finished.stdout.as_str()),
            (Some(2), ""),
            "{words:?}"
        );
        assert!(!finished.stderr.is_empty(), "{words:?}");
    }
    let finished = run(&["group", "list", "--nats-url", "http://x y"], "", &[]).await;
    assert_ne!(finished.code, Some(0), "{finished:?}");
}

#[tokio::test]
async fn every_flag_is_a_variable_too() {
    let plant = Plant::new().await;
    let url = plant.server.url();
    let variables = [
        ("LOCKSTEP_NATS_URL", url.as_str()),
        ("LOCKSTEP_OUTPUT", "json"),
    ];
    let finished = run(&["group", "describe", "orders"], "", &variables).await;
    assert_eq!(finished.code, Some(0), "{finished:?}");
    assert!(serde_json::from_str::<serde_json::Value>(&finished.stdout).is_ok());
    // Several servers; the first is not there.
    let several = format!("nats://127.0.0.1:1,{url}");
    let variables = [
        ("LOCKSTEP_NATS_URL", several.as_str()),
        ("LOCKSTEP_PARTITIONS", "0,1"),
    ];
    let finished = run(&["group", "pause", "orders"], "", &variables).await;
    assert_eq!(finished.code, Some(0), "{finished:?}");
    assert_eq!(plant.meta().await.pause.partitions.len(), 2);
    // A switch is set by 1 and not by 0.
    let (on, off) = ([("LOCKSTEP_LINES", "1")], [("LOCKSTEP_LINES", "0")]);
    let words = ["publish", "orders", "--key", "a", "--nats-url", &url];
    let finished = run(&words, "one\n", &on).await;
    assert_eq!(finished.code, Some(0), "{finished:?}");
    let finished = run(&words, "one\n", &off).await;
    assert_eq!(finished.code, Some(2), "{finished:?}");
}

#[tokio::test]
async fn another_bucket_prefix_shows_other_groups() {
    let plant = Plant::new().await;
    assert_eq!(
        plant.json("group list -o json --bucket-prefix other").await,
        serde_json::json!([])
    );
    plant
        .fails(
            "group describe orders --bucket-prefix other",
            1,
            &["other_default_orders"],
        )
        .await;
}

#[tokio::test]
async fn without_a_server_a_command_says_so_and_ends() {
    let line = "group list --nats-url nats://127.0.0.1:1";
    let words: Vec<&str> = line.split(' ').collect();
    let finished = run(&words, "", &[]).await;
    refused(
        line,
        &finished,
        1,
        &["cannot connect to NATS at nats://127.0.0.1:1", "--nats-url"],
    );
    let line = "group list --nats-nkey missing-file --nats-url nats://127.0.0.1:1";
    let words: Vec<&str> = line.split(' ').collect();
    let finished = run(&words, "", &[]).await;
    refused(line, &finished, 1, &["missing-file"]);
}

#[tokio::test]
async fn a_reader_that_goes_away_is_no_error() {
    let plant = Plant::new().await;
    let meta = plant.meta().await;
    for n in 0..20 {
        plant::empty_group(&plant.connection, &format!("shop/g{n}"), &meta).await;
    }
    let program = lockstep_e2e::process::lockstep().unwrap();
    let script = format!(
        "set -o pipefail; {} group list --nats-url {} | true",
        program.display(),
        plant.server.url()
    );
    let ended = tokio::process::Command::new("bash")
        .args(["-c", &script])
        .output()
        .await
        .unwrap();
    assert!(ended.status.success(), "{ended:?}");
}

#[tokio::test]
async fn completions_and_definitions_are_printed_without_a_server() {
    for shell in ["bash", "zsh", "fish"] {
        let finished = run(&["completions", shell], "", &[]).await;
        assert_eq!(finished.code, Some(0));
        assert!(finished.stdout.contains("partition-of"), "{shell}");
    }
    let finished = run(&["crd"], "", &[]).await;
    assert_eq!(finished.code, Some(0));
    assert!(finished.stdout.contains("kind: CustomResourceDefinition"));
}
