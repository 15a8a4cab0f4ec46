//! `lockstep group list | describe | members | offsets`: nothing is changed.

use std::io::{self, IsTerminal};
use std::time::Duration;

use clap::{Args, ValueEnum};
use futures_util::{StreamExt, TryStreamExt, stream};
use serde_json::{Value, json};

use super::read::{self, Reading};
use super::table::{self, ListRow};
use crate::cli::{CommonFlags, Failure, Runs, output, server};
use crate::group::GroupRef;
use crate::group::describe::{GroupWord, View, view};
use crate::nats::{Bucket, Connection};

/// How often `--watch` looks again.
const WATCH_EVERY: Duration = Duration::from_secs(1);
/// Groups that a list reads together.
const GROUPS_AT_ONCE: usize = 4;

/// How to print. As typed.
#[derive(Args, Debug)]
pub(super) struct ShowFlags {
    /// How to print
    #[arg(short, long, env = "LOCKSTEP_OUTPUT", value_enum, value_name = "FORMAT",
          default_value_t = Format::Table)]
    output: Format,
    /// Look again every second, until interrupted
    #[arg(long, env = "LOCKSTEP_WATCH")]
    watch: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Format {
    Table,
    Json,
    Yaml,
}

/// List groups
#[derive(Args, Debug)]
#[command(after_help = "Example: lockstep group list -o json")]
pub(super) struct ListFlags {
    #[command(flatten)]
    show: ShowFlags,
    #[command(flatten)]
    common: CommonFlags,
}

/// Show a group's state, owners, positions and lag
#[derive(Args, Debug)]
#[command(
    after_help = "COMMITTED is the first sequence that is not committed, END the position after the \
                  stream's last message.\nLAG is what the owner reports, or what the stream tells; \
                  <=N is a bound, unknown is unknown.\nExample: lockstep group describe shop/orders --watch"
)]
pub(super) struct DescribeFlags {
    #[command(flatten)]
    one: OneFlags,
}

/// List a group's members
#[derive(Args, Debug)]
#[command(after_help = "Example: lockstep group members shop/orders")]
pub(super) struct MembersFlags {
    #[command(flatten)]
    one: OneFlags,
}

/// Show a group's commit records
#[derive(Args, Debug)]
#[command(after_help = "Example: lockstep group offsets shop/orders -o json")]
pub(super) struct OffsetsFlags {
    #[command(flatten)]
    one: OneFlags,
}

#[derive(Args, Debug)]
struct OneFlags {
    /// The group, [NAMESPACE/]NAME
    #[arg(value_name = "NAME")]
    group: GroupRef,
    #[command(flatten)]
    show: ShowFlags,
    #[command(flatten)]
    common: CommonFlags,
}

/// What is printed: the same for people and for programs.
struct Shown {
    table: String,
    json: Value,
}

// === impl ListFlags ===

impl ListFlags {
    pub(super) async fn run(&self) -> Result<(), Failure> {
        self.common.start_logging(Runs::Once)?;
        let connection = server::reach(&self.common).await?;
        let prefix = self.common.bucket_prefix();
        self.show
            .repeat(async || list(&connection, prefix).await)
            .await
    }
}

async fn list(connection: &Connection, prefix: &str) -> Result<Shown, Failure> {
    let names = Bucket::names(connection, prefix).await;
    let names = names.map_err(|e| Failure::of(&e).while_doing("listing groups"))?;
    let groups = names
        .iter()
        .filter_map(|name| GroupRef::of_bucket(name, prefix));
    let rows: Vec<Option<ListRow>> = stream::iter(groups)
        .map(|group| list_row(connection, prefix, group))
        .buffered(GROUPS_AT_ONCE)
        .try_collect()
        .await?;
    let mut rows: Vec<ListRow> = rows.into_iter().flatten().collect();
    rows.sort_by(|a, b| a.group.cmp(&b.group));
    let json = rows.iter().map(list_json).collect();
    Ok(Shown {
        table: table::list(&rows),
        json,
    })
}

/// The group's row; none if it was deleted since the list was made.
async fn list_row(
    connection: &Connection,
    prefix: &str,
    group: GroupRef,
) -> Result<Option<ListRow>, Failure> {
    let name = group.bucket_name(prefix);
    let bucket = match Bucket::open(connection, &name).await {
        Ok((bucket, _)) => bucket,
        Err(crate::nats::BucketError::Missing { .. }) => return Ok(None),
        Err(error) => return Err(Failure::of(&error)),
    };
    let view = match read::group(connection, &bucket, &group).await? {
        Reading::Group(seen) => Some(view(&seen)),
        Reading::Damaged(_) => None,
    };
    let group = group.to_string();
    Ok(Some(ListRow { group, view }))
}

fn list_json(row: &ListRow) -> Value {
    match &row.view {
        Some(view) => json!({
            "group": row.group,
            "state": view.state,
            "partitions": view.partitions.len(),
            "assigned": view.assigned,
            "members": view.members,
            "standby": view.standby,
            "total_lag": view.total_lag,
            "total_lag_source": view.total_lag_source,
            "coordinator": view.coordinator,
            "epoch": view.epoch,
            "manager": view.manager,
        }),
        None => json!({ "group": row.group, "state": GroupWord::Damaged }),
    }
}

// === impl DescribeFlags, MembersFlags, OffsetsFlags ===

impl DescribeFlags {
    pub(super) async fn run(&self) -> Result<(), Failure> {
        self.one
            .show(|view| Shown {
                table: table::describe(view),
                json: json!(view),
            })
            .await
    }
}

impl MembersFlags {
    pub(super) async fn run(&self) -> Result<(), Failure> {
        let json = |view: &View| json!({ "group": view.group, "members": view.member_rows });
        self.one
            .show(|view| Shown {
                table: table::members(view),
                json: json(view),
            })
            .await
    }
}

impl OffsetsFlags {
    pub(super) async fn run(&self) -> Result<(), Failure> {
        let json = |view: &View| json!({ "group": view.group, "partitions": view.partitions });
        self.one
            .show(|view| Shown {
                table: table::offsets(view),
                json: json(view),
            })
            .await
    }
}

// === impl OneFlags ===

impl OneFlags {
    async fn show(&self, shown: impl Fn(&View) -> Shown) -> Result<(), Failure> {
        self.common.start_logging(Runs::Once)?;
        let connection = server::reach(&self.common).await?;
        let look = async || {
            let bucket = read::open(&connection, &self.group, &self.common).await?;
            match read::group(&connection, &bucket, &self.group).await? {
                Reading::Group(seen) => Ok(shown(&view(&seen))),
                Reading::Damaged(why) => Err(Failure::failed(why)),
            }
        };
        self.show.repeat(look).await
    }
}

// === impl ShowFlags ===

impl ShowFlags {
    /// Prints once, or again and again. While watching, a look that fails is told and made again.
    async fn repeat(&self, look: impl AsyncFn() -> Result<Shown, Failure>) -> Result<(), Failure> {
        if !self.watch {
            return output::write(&self.text(&look().await?)?);
        }
        let mut ticks = tokio::time::interval(WATCH_EVERY);
        ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        loop {
            ticks.tick().await;
            match look().await {
                Ok(shown) => output::write(&self.watched(&shown)?)?,
                Err(failure) => output::say(format_args!("lockstep: {failure}")),
            }
        }
    }

    fn text(&self, shown: &Shown) -> Result<String, Failure> {
        match self.output {
            Format::Table => Ok(shown.table.clone()),
            Format::Json => serde_json::to_string_pretty(&shown.json)
                .map(|text| format!("{text}\n"))
                .map_err(|e| Failure::of(&e)),
            Format::Yaml => serde_saphyr::to_string(&shown.json).map_err(|e| Failure::of(&e)),
        }
    }

    /// On a terminal each look takes the place of the last; in a file or a pipe they follow one
    /// another, JSON in one line each, YAML as documents.
    fn watched(&self, shown: &Shown) -> Result<String, Failure> {
        let text = match self.output {
            Format::Table => shown.table.clone(),
            Format::Json => format!("{}\n", shown.json),
            Format::Yaml => format!("---\n{}", self.text(shown)?),
        };
        if io::stdout().is_terminal() {
            const CLEAR_AND_HOME: &str = "\u{1b}[2J\u{1b}[H";
            return Ok(format!("{CLEAR_AND_HOME}{text}"));
        }
        Ok(match self.output {
            Format::Table => format!("{text}\n"),
            Format::Json | Format::Yaml => text,
        })
    }
}
