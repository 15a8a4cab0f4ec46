//! The rules that join fields: each lets pass what is right and refuses what is wrong, in its words.

use std::collections::BTreeSet;

use lockstep::crd;
use serde_json::Value;

use super::stage::{Stage, with};
use super::{cases, updates};

#[tokio::test]
async fn each_rule_accepts_what_is_right_and_refuses_what_is_wrong_in_its_words() {
    let stage = Stage::start().await;
    let mut trouble = Vec::new();
    for case in cases::all() {
        let said = case.rule.message;
        for edits in &case.right {
            if let Err(error) = stage.try_create(case.kind, &with(case.kind, edits)).await {
                trouble.push(format!("{said:?}: refuses {edits:?}: {error}"));
            }
        }
        for edits in &case.wrong {
            match stage.try_create(case.kind, &with(case.kind, edits)).await {
                Ok(_) => trouble.push(format!("{said:?}: accepts {edits:?}")),
                Err(error) if error.contains(said) => {}
                Err(error) => trouble.push(format!("{said:?}: of {edits:?} it says {error}")),
            }
        }
    }
    assert!(trouble.is_empty(), "{}", trouble.join("\n"));
}

#[test]
fn every_rule_has_its_cases() {
    let new = cases::all();
    assert!(
        new.iter()
            .all(|c| !c.right.is_empty() && !c.wrong.is_empty()),
        "a case without examples shows nothing"
    );
    let mut tried: BTreeSet<&str> = new.iter().map(|case| case.rule.message).collect();
    tried.extend(updates::all().iter().map(|case| case.rule.message));
    let mut declared = BTreeSet::new();
    for definition in crd::definitions() {
        messages(&definition.schema, &mut declared);
    }
    let tried: BTreeSet<String> = tried.into_iter().map(str::to_owned).collect();
    assert_eq!(tried, declared, "left: tried; right: declared");
    // And no rule was written that no definition has.
    let source = include_str!("../../../src/crd/rules.rs");
    let written = source.lines().filter(|line| {
        let name = line.trim_start().split(": \"").next().unwrap_or_default();
        line.contains(": \"") && name.chars().all(|c| c.is_ascii_uppercase() || c == '_')
    });
    assert_eq!(written.count(), declared.len());
}

fn messages(schema: &Value, found: &mut BTreeSet<String>) {
    match schema {
        Value::Object(fields) => {
            let rules = fields
                .get("x-kubernetes-validations")
                .and_then(Value::as_array);
            let said = rules
                .into_iter()
                .flatten()
                .filter_map(|r| r["message"].as_str());
            found.extend(said.map(str::to_owned));
            fields.values().for_each(|value| messages(value, found));
        }
        Value::Array(items) => items.iter().for_each(|value| messages(value, found)),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}
