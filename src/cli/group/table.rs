//! Tables for people.

use comfy_table::{CellAlignment, ContentArrangement, Table, presets};

use crate::group::describe::{GroupWord, MemberRow, PartitionRow, View};
use crate::settings::duration_text;

/// What stands where nothing is known, or where there is nothing.
const NONE: &str = "-";

/// A group in one row of the list.
pub(super) struct ListRow {
    /// `namespace/name`.
    pub(super) group: String,
    /// The group; none if its description cannot be read.
    pub(super) view: Option<View>,
}

/// `lockstep group list`
pub(super) fn list(rows: &[ListRow]) -> String {
    let header = "GROUP STATE PARTITIONS ASSIGNED MEMBERS LAG COORDINATOR";
    let row = |row: &ListRow| {
        let Some(view) = &row.view else {
            let mut cells = vec![row.group.clone(), word(GroupWord::Damaged)];
            cells.resize(7, NONE.to_owned());
            return cells;
        };
        vec![
            row.group.clone(),
            word(view.state),
            view.partitions.len().to_string(),
            view.assigned.to_string(),
            view.members.to_string(),
            view.lag.to_string(),
            or_none(view.coordinator.as_deref()),
        ]
    };
    table(header, &[2, 3, 4, 5], rows.iter().map(row))
}

/// `lockstep group describe`
pub(super) fn describe(view: &View) -> String {
    let header = "PARTITION STREAM OWNER EPOCH COMMITTED END LAG IN-FLIGHT STATE";
    let row = |p: &PartitionRow| {
        vec![
            p.partition.to_string(),
            p.stream.clone(),
            or_none(p.owner.as_deref()),
            or_none(p.epoch),
            or_none(p.committed),
            or_none(p.end),
            p.lag_known.to_string(),
            or_none(p.in_flight),
            state(p),
        ]
    };
    let rows = table(header, &[0, 3, 4, 5, 6, 7], view.partitions.iter().map(row));
    format!("{}\n{rows}", head(view))
}

/// `lockstep group members`
pub(super) fn members(view: &View) -> String {
    let header = "MEMBER INCARNATION STATE ZONE APP PARTITIONS IN-FLIGHT HEARD VERSION";
    let row = |m: &MemberRow| {
        vec![
            m.id.clone(),
            m.incarnation.clone(),
            with(m.state.to_string(), m.reason.as_deref()),
            or_none(m.zone.as_deref()),
            match m.app_connected {
                Some(true) => "connected".to_owned(),
                Some(false) => "away".to_owned(),
                None => NONE.to_owned(),
            },
            ranges(&m.partitions),
            or_none(m.in_flight),
            or_none(m.heard_ms.map(ago)),
            or_none(m.version.as_deref()),
        ]
    };
    table(header, &[6], view.member_rows.iter().map(row))
}

/// `lockstep group offsets`
pub(super) fn offsets(view: &View) -> String {
    let header = "PARTITION STREAM EPOCH COMMITTED END LAG ATTEMPTS STATE DETAIL";
    let row = |p: &PartitionRow| {
        let detail = if p.detail.is_empty() {
            &p.last_error
        } else {
            &p.detail
        };
        vec![
            p.partition.to_string(),
            p.stream.clone(),
            or_none(p.epoch),
            or_none(p.committed),
            or_none(p.end),
            p.lag_known.to_string(),
            p.attempts.to_string(),
            state(p),
            or_none(Some(one_line(detail)).filter(|d| !d.is_empty())),
        ]
    };
    table(header, &[0, 2, 3, 4, 5, 6], view.partitions.iter().map(row))
}

fn head(view: &View) -> String {
    let heard = view
        .coordinator_heard_ms
        .map(|ms| format!("heard {} ago", ago(ms)));
    let coordinator = or_none(view.coordinator.as_deref());
    let standby = match view.standby {
        0 => None,
        standby => Some(format!("{standby} standby")),
    };
    let mut lines = vec![
        ("Group", view.group.clone()),
        ("State", word(view.state)),
        ("Epoch", or_none(view.epoch)),
        ("Coordinator", with(coordinator, heard.as_deref())),
        (
            "Members",
            with(view.members.to_string(), standby.as_deref()),
        ),
        ("Total lag", view.lag.to_string()),
    ];
    lines.extend(view.problems.iter().map(|p| ("Problem", one_line(p))));
    let line = |(name, value): &(&str, String)| format!("{:<13}{value}\n", format!("{name}:"));
    lines.iter().map(line).collect()
}

fn state(p: &PartitionRow) -> String {
    let reason = p.stopped.map(|reason| format!("{reason:?}"));
    with(p.state.to_string(), reason.as_deref())
}

fn word(state: GroupWord) -> String {
    format!("{state:?}")
}

fn with(word: String, reason: Option<&str>) -> String {
    match reason {
        Some(reason) => format!("{word} ({reason})"),
        None => word,
    }
}

fn or_none(value: Option<impl ToString>) -> String {
    value.map_or_else(|| NONE.to_owned(), |v| v.to_string())
}

fn ago(ms: u64) -> String {
    // Milliseconds are noise once there are seconds.
    let ms = if ms < 1000 { ms } else { ms - ms % 1000 };
    duration_text(std::time::Duration::from_millis(ms))
}

fn one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// `0-3,7` for 0, 1, 2, 3 and 7.
fn ranges(partitions: &[u32]) -> String {
    let mut runs: Vec<(u32, u32)> = Vec::new();
    for p in partitions {
        match runs.last_mut() {
            Some((_, end)) if end.checked_add(1) == Some(*p) => *end = *p,
            _ => runs.push((*p, *p)),
        }
    }
    let run = |(start, end): &(u32, u32)| match end - start {
        0 => start.to_string(),
        1 => format!("{start},{end}"),
        _ => format!("{start}-{end}"),
    };
    let runs: Vec<String> = runs.iter().map(run).collect();
    or_none(Some(runs.join(",")).filter(|r| !r.is_empty()))
}

/// Columns side by side, numbers to the right. No cell is ever cut or broken over lines.
fn table(header: &str, numbers: &[usize], rows: impl Iterator<Item = Vec<String>>) -> String {
    let mut table = Table::new();
    table
        .load_style(presets::NOTHING)
        .set_content_arrangement(ContentArrangement::Disabled)
        .set_header(header.split(' '))
        .add_rows(rows);
    for at in numbers {
        if let Some(column) = table.column_mut(*at) {
            column.set_cell_alignment(CellAlignment::Right);
        }
    }
    for column in table.column_iter_mut() {
        column.set_padding((0, 2));
    }
    let mut text = String::new();
    for line in table.lines() {
        text.push_str(line.trim_end());
        text.push('\n');
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn partitions_are_written_as_ranges() {
        assert_eq!(ranges(&[0, 1, 2, 3, 7]), "0-3,7");
        assert_eq!(ranges(&[4, 5]), "4,5");
        assert_eq!(ranges(&[]), "-");
        assert_eq!(ranges(&[u32::MAX]), "4294967295");
    }

    #[test]
    fn a_table_is_aligned_and_has_no_trailing_space() {
        let rows = [
            vec!["a".to_owned(), "1".to_owned()],
            vec!["bb".to_owned(), "22".to_owned()],
        ];
        let text = table("NAME LAG", &[1], rows.into_iter());
        assert_eq!(text, "NAME  LAG\na       1\nbb     22\n");
    }
}
