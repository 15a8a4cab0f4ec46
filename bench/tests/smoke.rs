//! The bench itself works: a tiny round reads everything, and the last line says so.

use std::process::Command;

use serde_json::Value;

#[test]
fn everyone_reads_all_messages_and_the_last_line_has_the_ratios() {
    let output = Command::new(env!("CARGO_BIN_EXE_lockstep-bench"))
        .args(["--only", "smoke"])
        .output()
        .unwrap();
    let printed = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{printed}");
    let last: Value = serde_json::from_str(printed.lines().last().unwrap()).unwrap();
    let cell = "one_stream 2p 128B R1 window 1000";
    assert_eq!(last["figures"][cell]["fewest_messages"], 4000, "{last}");
    for contender in ["grpc_rust", "http", "library"] {
        let ratio = &last["ratios"][format!("{cell}: {contender} / limit")]["value"];
        assert!(ratio.as_f64().unwrap() > 0.0, "{last}");
    }
}
