//! The group as `lockstep group describe -o json` has it, for the eye.

use lockstep_e2e::Scene;
use lockstep_e2e::scene::Outcome;
use serde_json::Value;

/// What is shown at one moment.
#[derive(Clone, Debug, Default)]
pub(crate) struct Table {
    /// `orders: Stable, coordinator c1, …`
    pub(crate) headline: String,
    /// One row per partition: number, owner, epoch, committed, lag, state.
    pub(crate) rows: Vec<[String; 6]>,
}

/// The names of the columns.
pub(crate) const COLUMNS: [&str; 6] = ["PARTITION", "OWNER", "EPOCH", "COMMITTED", "LAG", "STATE"];

/// Asks the command line, as anybody could.
pub(crate) async fn of(scene: &Scene) -> Outcome<Table> {
    match scene.describe().await {
        Ok(described) => Ok(read(&described)),
        // Before the group exists there is nothing to describe.
        Err(error) if scene.progress().document.is_none() => Ok(Table {
            headline: error.to_string(),
            rows: Vec::new(),
        }),
        Err(error) => Err(error),
    }
}

fn read(described: &Value) -> Table {
    let word = |name: &str| text(described.get(name));
    let headline = format!(
        "{}: {}, coordinator {}, {} members, lag {}",
        word("group"),
        word("state"),
        word("coordinator"),
        word("members"),
        word("total_lag")
    );
    let partitions = described.get("partitions").and_then(Value::as_array);
    let row = |partition: &Value| {
        ["partition", "owner", "epoch", "committed", "lag", "state"]
            .map(|name| text(partition.get(name)))
    };
    Table {
        headline,
        rows: partitions.into_iter().flatten().map(row).collect(),
    }
}

fn text(value: Option<&Value>) -> String {
    match value {
        None | Some(Value::Null) => "-".to_owned(),
        Some(Value::String(text)) => text.clone(),
        Some(other) => other.to_string(),
    }
}

impl Table {
    /// Who owns what, in one line.
    pub(crate) fn owners(&self) -> String {
        let each: Vec<String> = self
            .rows
            .iter()
            .map(|row| format!("{}:{}@{}", row[0], row[1], row[2]))
            .collect();
        each.join(" ")
    }
}
