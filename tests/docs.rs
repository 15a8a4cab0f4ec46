//! What the documents claim, checked: sentences of the protocol have tests, links resolve.

#![allow(clippy::expect_used, reason = "a test stops at what it cannot read")]

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use lockstep::crd::{ConditionType, Reason, read_groups};
use lockstep::k8s::EventReason;
use lockstep::metrics::{
    AdmissionMetrics, AdmissionOutcome, ConditionWord, ControllerMetrics, CoordinatorMetrics,
    GroupFigures, GroupLabels, Leads, MemberStanding, MembersLabels, Metrics, ObjectKind,
    ObjectName, PartitionFigures, PartitionState, PartitionsLabels, RebalanceLabels,
    RebalanceReason, ReconcileOutcome, WorkerMetrics,
};
use lockstep::wire;

#[test]
fn every_sentence_of_the_protocol_is_quoted_by_a_test() {
    let sentences = sentences(&read(&root().join("docs/protocol.md")));
    assert!(
        sentences.len() > 100,
        "docs/protocol.md has {} sentences",
        sentences.len()
    );
    let quoted: BTreeSet<String> = rust_files()
        .iter()
        .flat_map(|file| quotes(test_part(file, &read(file))))
        .map(|(_, number)| number)
        .collect();
    let missing: Vec<&String> = sentences
        .iter()
        .filter(|(number, tested)| **tested && !quoted.contains(*number))
        .map(|(number, _)| number)
        .collect();
    assert!(
        missing.is_empty(),
        "{} sentences have no test: {missing:?}",
        missing.len()
    );
}

#[test]
fn no_comment_quotes_a_sentence_that_does_not_exist() {
    let sentences = sentences(&read(&root().join("docs/protocol.md")));
    let mut wrong = Vec::new();
    for file in rust_files() {
        for (line, number) in quotes(&read(&file)) {
            if !sentences.contains_key(&number) {
                wrong.push(format!("{}:{line}: {number}", file.display()));
            }
        }
    }
    assert!(
        wrong.is_empty(),
        "docs/protocol.md has no such sentence:\n{}",
        wrong.join("\n")
    );
}

#[test]
fn sentences_are_numbered_upwards_and_each_once() {
    let text = read(&root().join("docs/protocol.md"));
    let numbers: Vec<(u32, String)> = text
        .lines()
        .filter_map(sentence_number)
        .map(|n| (digits(&n), n))
        .collect();
    let mut sorted = numbers.clone();
    sorted.sort();
    sorted.dedup();
    assert_eq!(
        numbers, sorted,
        "a number is used twice, or stands in the wrong place"
    );
}

#[test]
fn references_within_the_protocol_name_sentences_that_exist() {
    let text = read(&root().join("docs/protocol.md"));
    let sentences = sentences(&text);
    let named: BTreeSet<String> = text
        .split(|c: char| !c.is_ascii_alphanumeric())
        .filter(|word| number_at_start(word).is_some_and(|n| n.len() == word.len()))
        .map(str::to_owned)
        .collect();
    let unknown: Vec<&String> = named
        .iter()
        .filter(|n| !sentences.contains_key(*n))
        .collect();
    assert!(unknown.is_empty(), "docs/protocol.md refers to {unknown:?}");
}

#[test]
fn links_in_documents_resolve() {
    let mut wrong = Vec::new();
    let documents = documents();
    assert!(!documents.is_empty(), "there are no documents");
    for document in &documents {
        let text = read(document);
        for link in links(&text) {
            if let Some(why) = broken(document, &text, &link) {
                wrong.push(format!("{}: ({link}) {why}", document.display()));
            }
        }
    }
    assert!(
        wrong.is_empty(),
        "links that lead nowhere:\n{}",
        wrong.join("\n")
    );
}

#[test]
fn documents_shown_in_the_protocol_are_documents() {
    let text = read(&root().join("docs/protocol.md"));
    let shown = |heading: &str| {
        let (_, section) = text.split_once(heading).expect("the section of a document");
        let block = section.split("```json\n").nth(1).expect("its example");
        block
            .split("```")
            .next()
            .expect("an end of it")
            .as_bytes()
            .to_owned()
    };
    let same = |shown: Vec<u8>, encoded: Vec<u8>| {
        let value = |bytes: &[u8]| serde_json::from_slice(bytes).expect("JSON");
        let (shown, encoded): (serde_json::Value, serde_json::Value) =
            (value(&shown), value(&encoded));
        assert_eq!(
            shown, encoded,
            "the example and what is written of it differ"
        );
    };
    macro_rules! round {
        ($heading:literal, $codec:ident) => {
            let document = wire::$codec::decode(&shown($heading)).expect($heading);
            same(
                shown($heading),
                wire::$codec::encode(&document).expect($heading),
            );
        };
    }
    round!("### 3.1 `meta`", meta);
    round!("### 3.2 `group`", group);
    round!("### 3.3 `member.<incarnation>`", member);
    round!("### 3.4 `offset.<p>`", offset);
    round!("### 3.5 `candidate.<incarnation>`", candidate);
}

#[test]
fn every_metric_is_explained_to_operators() {
    let metrics = Metrics::new();
    show_every_family(CoordinatorMetrics::register_with_partitions(&metrics, 64));
    show_every_figure(&ControllerMetrics::register(&metrics));
    AdmissionMetrics::register(&metrics);
    WorkerMetrics::register(&metrics);
    let rendered = metrics.render().expect("metrics as text");
    let shown: BTreeSet<String> = rendered
        .lines()
        .filter_map(|line| line.strip_prefix("# TYPE "))
        .filter_map(|line| line.split_once(' '))
        .map(|(name, kind)| name.to_owned() + if kind == "counter" { "_total" } else { "" })
        .collect();
    assert!(shown.len() > 10, "the metrics were not found:\n{rendered}");
    let explained: BTreeSet<String> = read(&root().join("docs/operations.md"))
        .split(|c: char| !c.is_ascii_alphanumeric() && c != '_')
        .filter(|word| word.starts_with("lockstep_"))
        .map(str::to_owned)
        .collect();
    let missing: Vec<_> = shown.difference(&explained).collect();
    assert!(
        missing.is_empty(),
        "docs/operations.md does not explain {missing:?}"
    );
    let unknown: Vec<_> = explained
        .difference(&shown)
        .filter(|n| *n != "lockstep_")
        .collect();
    assert!(
        unknown.is_empty(),
        "docs/operations.md explains {unknown:?}, which are not shown"
    );
}

#[test]
fn every_label_of_a_metric_is_explained_to_operators() {
    let text = read(&root().join("docs/operations.md"));
    let words = MemberStanding::ALL.iter().map(|w| w.word());
    let words = words.chain(PartitionState::ALL.iter().map(|w| w.word()));
    let words = words.chain(RebalanceReason::ALL.iter().map(|w| w.word()));
    let words = words.chain(ObjectKind::ALL.iter().map(|w| w.word()));
    let words = words.chain(ReconcileOutcome::ALL.iter().map(|w| w.word()));
    let words = words.chain(AdmissionOutcome::ALL.iter().map(|w| w.word()));
    let words = words.chain(ConditionWord::ALL.iter().map(|w| w.word()));
    let missing: Vec<_> = words
        .filter(|w| !text.contains(&format!("`{w}`")))
        .collect();
    assert!(
        missing.is_empty(),
        "docs/operations.md does not explain {missing:?}"
    );
}

#[test]
fn every_state_and_reason_is_explained_to_operators() {
    let words = [
        ("src/group/describe/mod.rs", "GroupWord"),
        ("src/group/decide/conditions.rs", "Aspect"),
        ("src/group/decide/conditions.rs", "Trouble"),
        ("src/group/offset_record.rs", "StopReason"),
    ];
    let mut words: Vec<String> = words
        .iter()
        .flat_map(|(file, name)| variants(file, name))
        .collect();
    let shown_small = ["PartitionWord", "MemberWord"];
    let files = [
        "src/group/describe/partition.rs",
        "src/group/describe/member.rs",
    ];
    let small = files
        .iter()
        .zip(shown_small)
        .flat_map(|(file, name)| variants(file, name));
    words.extend(small.map(|word| spaced(&word)));
    words.extend(ConditionType::ALL.iter().map(ToString::to_string));
    words.extend(Reason::ALL.iter().map(ToString::to_string));
    words.extend(EventReason::ALL.iter().map(|r| r.as_str().to_owned()));
    let text = read(&root().join("docs/operations.md"));
    let missing: Vec<_> = words
        .iter()
        .filter(|w| !text.contains(&format!("`{w}`")))
        .collect();
    assert!(
        missing.is_empty(),
        "docs/operations.md does not explain {missing:?}"
    );
}

/// The variants of an enum without content, as the source has them.
fn variants(file: &str, name: &str) -> Vec<String> {
    let text = read(&root().join(file));
    let (_, body) = text.split_once(&format!("pub enum {name} {{")).expect(name);
    let (body, _) = body.split_once('}').expect("the enum's end");
    let lines = body
        .lines()
        .filter_map(|line| line.trim().strip_suffix(','));
    let variants: Vec<String> = lines
        .filter(|l| !l.starts_with('/'))
        .map(str::to_owned)
        .collect();
    assert!(variants.len() > 2, "{file}: {name} has {variants:?}");
    variants
}

/// `OffsetLost` as a table shows it: `offset lost`.
fn spaced(word: &str) -> String {
    let mut spaced = String::new();
    for c in word.chars() {
        if c.is_uppercase() && !spaced.is_empty() {
            spaced.push(' ');
        }
        spaced.extend(c.to_lowercase());
    }
    spaced
}

#[test]
fn manifests_shown_in_documents_are_valid() {
    let mut shown = Vec::new();
    for document in documents() {
        let text = read(&document);
        let blocks = text
            .split("```yaml\n")
            .skip(1)
            .filter_map(|b| b.split("```").next());
        shown.extend(blocks.map(|block| (document.clone(), block.to_owned())));
    }
    let mut examples = Vec::new();
    files_below(&root().join("examples"), "yaml", &mut examples);
    // Workloads that stand beside a group are the API server's to judge, in e2e/tests/crds.
    let ours = |text: String| {
        let documents = text.split("---\n");
        let ours = documents.filter(|document| document.contains("apiVersion: lockstep.dev/"));
        ours.collect::<Vec<_>>().join("---\n")
    };
    let examples = examples.into_iter();
    shown.extend(examples.map(|file| (file.clone(), ours(read(&file)))));
    assert!(shown.len() > 3, "the manifests were not found");
    for (file, manifest) in shown {
        let groups = read_groups(&file.display().to_string(), &manifest);
        assert!(
            groups.is_ok_and(|g| g.len() == 1),
            "{}:\n{manifest}",
            file.display()
        );
    }
}

#[test]
fn commands_shown_in_documents_are_commands() {
    let mut shown = 0;
    let mut wrong = Vec::new();
    for document in documents() {
        for line in commands(&read(&document)) {
            let words = words(&line);
            if words.first().is_none_or(|word| word != "lockstep") {
                continue;
            }
            shown += 1;
            if let Err(error) = lockstep::cli::command_line().try_get_matches_from(&words) {
                wrong.push(format!("{}: {line}\n{error}", document.display()));
            }
        }
    }
    assert!(shown > 5, "the commands were not found");
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// What is typed at a prompt, `$ `, in a document's blocks of code.
fn commands(text: &str) -> Vec<String> {
    let lines = text.lines().filter_map(|line| line.strip_prefix("$ "));
    lines.map(str::to_owned).collect()
}

/// A command line as a shell splits it, up to a comment, a pipe or an ampersand.
fn words(line: &str) -> Vec<String> {
    let (mut words, mut word, mut quote) = (Vec::new(), None::<String>, None);
    for c in line.chars() {
        match (quote, c) {
            (Some(open), c) if c == open => quote = None,
            (None, '\'' | '"') => {
                quote = Some(c);
                word.get_or_insert_default();
            }
            (None, ' ') => words.extend(word.take()),
            (None, '#' | '|' | '&' | '>') if word.is_none() => return words,
            (_, c) => word.get_or_insert_default().push(c),
        }
    }
    words.extend(word);
    words
}

#[test]
fn a_command_is_split_as_a_shell_does() {
    let split = |line: &str| words(line).join("|");
    assert_eq!(
        split("lockstep publish a --data 'x y' # said"),
        "lockstep|publish|a|--data|x y"
    );
    assert_eq!(
        split("lockstep worker --socket \"/tmp/a b\" &"),
        "lockstep|worker|--socket|/tmp/a b"
    );
    assert_eq!(
        commands("text\n```console\n$ make demo\nout\n```\n"),
        ["make demo"]
    );
}

#[test]
fn log_lines_and_events_shown_to_operators_are_said_by_the_code() {
    let text = read(&root().join("docs/operations.md"));
    let mut sources = Vec::new();
    files_below(&root().join("src"), "rs", &mut sources);
    let sources: String = sources.iter().map(|file| read(file)).collect();
    let lines: Vec<String> = first_cells(&text, "## Log lines worth knowing")
        .iter()
        .flat_map(|cell| {
            cell.split('`')
                .skip(1)
                .step_by(2)
                .map(str::to_owned)
                .collect::<Vec<_>>()
        })
        .collect();
    let unsaid: Vec<_> = lines
        .iter()
        .filter(|l| !sources.contains(&format!("\"{l}\"")))
        .collect();
    assert!(
        lines.len() > 5 && unsaid.is_empty(),
        "nothing says {unsaid:?} of {lines:?}"
    );
    let told = read(&root().join("src/group/member/news.rs"));
    let events: Vec<String> = first_cells(&text, "## Events of a member")
        .iter()
        .flat_map(|cell| cell.split(", ").map(str::to_owned).collect::<Vec<_>>())
        .collect();
    let unknown: Vec<_> = events
        .iter()
        .filter(|e| !told.contains(&format!("\n    {e}")))
        .collect();
    assert!(
        events.len() > 5 && unknown.is_empty(),
        "there are no events {unknown:?}"
    );
}

/// The first cell of each row of the table below a heading.
fn first_cells(text: &str, heading: &str) -> Vec<String> {
    let section = text.split(heading).nth(1).expect(heading);
    let section = section.split("\n## ").next().unwrap_or_default();
    let rows = section.lines().filter(|line| line.starts_with('|')).skip(2);
    rows.filter_map(|row| Some(row.split('|').nth(1)?.trim().to_owned()))
        .collect()
}

/// A family without members is not shown. Every field is named, so that a new one is not forgotten.
fn show_every_family(of: CoordinatorMetrics) {
    let CoordinatorMetrics {
        coordinator_active,
        group_term,
        group_epoch,
        group_members,
        group_partitions,
        group_lag,
        group_lag_max_partition,
        group_lag_seconds,
        group_source_lag,
        rebalances,
        rebalance_duration_seconds: _,
        documents_written,
        echo_age_seconds,
        nats_connected: _,
        partitions,
    } = of;
    let group = "orders".parse().expect("a group");
    let labels = GroupLabels::of(&group);
    for gauge in [
        coordinator_active,
        group_term,
        group_epoch,
        group_lag,
        group_lag_max_partition,
        group_source_lag,
    ] {
        gauge.get_or_create(&labels).set(1);
    }
    documents_written.get_or_create(&labels).inc();
    echo_age_seconds.get_or_create(&labels).set(1.0);
    group_lag_seconds.get_or_create(&labels).set(1.0);
    group_members
        .get_or_create(&MembersLabels::of(&group, MemberStanding::ALL[0]))
        .set(1);
    group_partitions
        .get_or_create(&PartitionsLabels::of(&group, PartitionState::ALL[0]))
        .set(1);
    rebalances
        .get_or_create(&RebalanceLabels::of(&group, RebalanceReason::ALL[0]))
        .inc();
    let figures = PartitionFigures {
        owner: Some("a".to_owned()),
        lag: Some(1),
    };
    partitions.show(&group, std::iter::once(figures));
}

/// The same of a controller: what it can be told, it is told.
fn show_every_figure(of: &ControllerMetrics) {
    let name = ObjectName {
        namespace: "shop".to_owned(),
        name: "orders".to_owned(),
    };
    let conditions = vec![("Ready", ConditionWord::True)];
    of.leads(Leads::Yes);
    of.connection(&name, &conditions);
    of.connection_lost(&name);
    of.uninjected(&name, 1);
    let took = std::time::Duration::from_secs(1);
    of.reconciled(ObjectKind::ConsumerGroup, ReconcileOutcome::Done, took);
    let figures = GroupFigures {
        replicas: Some(1),
        desired_replicas: Some(1),
        conditions,
    };
    of.group(&name, &figures);
}

// === the checks, checked ===

#[test]
fn sentences_are_read_with_their_marks() {
    let text =
        "**P1.** A name. (definition)\n\n**P2.** It\nholds.\n\n**P2a.** Also. (server)\n\nP3. no\n";
    let read: Vec<(String, bool)> = sentences(text).into_iter().collect();
    let expected = [("P1", false), ("P2", true), ("P2a", true)];
    assert_eq!(read, expected.map(|(n, tested)| (n.to_owned(), tested)));
}

#[test]
fn quotes_are_comments_that_begin_with_numbers() {
    let numbers = |text: &str| quotes(text).into_iter().map(|(_, n)| n).collect::<Vec<_>>();
    assert_eq!(numbers("// P12, P13\n"), ["P12", "P13"]);
    assert_eq!(
        numbers("/// P7 P8a: the rest names P9 in passing\n"),
        ["P7", "P8a"]
    );
    assert_eq!(numbers("let x = 1; // P4"), ["P4"]);
    assert_eq!(numbers("//! Of a claim. // P96"), ["P96"]);
    assert_eq!(
        numbers("// see P12\n// Partition\n// P99th\nlet p = \"P5\";"),
        Vec::<String>::new()
    );
}

#[test]
fn of_a_source_file_only_its_tests_count() {
    let text = "// P1\nfn f() {}\n#[cfg(test)]\nmod tests {\n// P2\n}\n";
    let numbers = |path: &str| {
        let part = test_part(Path::new(path), text);
        quotes(part).into_iter().map(|(_, n)| n).collect::<Vec<_>>()
    };
    assert_eq!(numbers("src/group/epochs.rs"), ["P2"]);
    assert_eq!(numbers("src/group/tests/epochs.rs"), ["P1", "P2"]);
    assert_eq!(numbers("src/group/tests.rs"), ["P1", "P2"]);
    assert_eq!(numbers("e2e/tests/cas.rs"), ["P1", "P2"]);
}

#[test]
fn a_broken_link_is_found() {
    let here = root().join("docs/protocol.md");
    let text = "# A title, `coded`\n[a](protocol.md) [b](../no.md) [c](#a-title-coded) [d](#no)\n\
                ```\n[e](in-code.md)\n```\n`[f](in-code.md)` [g](https://x.y/z) ![h](no.svg \"t\")";
    let all = links(text);
    assert_eq!(
        all,
        [
            "protocol.md",
            "../no.md",
            "#a-title-coded",
            "#no",
            "https://x.y/z",
            "no.svg"
        ]
    );
    let wrong: Vec<&String> = all
        .iter()
        .filter(|l| broken(&here, text, l).is_some())
        .collect();
    assert_eq!(wrong, ["../no.md", "#no", "no.svg"]);
}

// === files ===

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

fn read(file: &Path) -> String {
    fs::read_to_string(file)
        .unwrap_or_else(|error| format!("{} is not text: {error}", file.display()))
}

fn rust_files() -> Vec<PathBuf> {
    let mut files = Vec::new();
    for folder in ["src", "tests", "e2e", "sim", "model", "bench"] {
        files_below(&root().join(folder), "rs", &mut files);
    }
    files.retain(|file| !file.ends_with("tests/docs.rs")); // its examples quote nothing
    assert!(files.len() > 10, "the sources were not found");
    files
}

fn documents() -> Vec<PathBuf> {
    let mut files = Vec::new();
    files_below(root(), "md", &mut files);
    files
}

/// Files of the repository with this ending; what is built or fetched is left out.
fn files_below(folder: &Path, ending: &str, into: &mut Vec<PathBuf>) {
    let Ok(entries) = fs::read_dir(folder) else {
        return;
    };
    for path in entries.filter_map(|entry| Some(entry.ok()?.path())) {
        let name = path
            .file_name()
            .map(|n| n.to_string_lossy().into_owned())
            .unwrap_or_default();
        if path.is_dir() {
            if !name.starts_with('.') && !["target", "bin", "node_modules"].contains(&name.as_str())
            {
                files_below(&path, ending, into);
            }
        } else if path.extension().is_some_and(|e| e == ending) {
            into.push(path);
        }
    }
}

// === numbered sentences ===

/// The numbers of all sentences, each with whether a test has to quote it.
fn sentences(text: &str) -> BTreeMap<String, bool> {
    text.split("\n\n")
        .filter_map(|paragraph| {
            let number = sentence_number(paragraph)?;
            Some((number, !paragraph.trim_end().ends_with("(definition)")))
        })
        .collect()
}

/// `P12` of a line or paragraph that begins with `**P12.**`.
fn sentence_number(line: &str) -> Option<String> {
    let (number, _) = line.trim_start().strip_prefix("**")?.split_once(".**")?;
    (number_at_start(number)? == number).then(|| number.to_owned())
}

/// The number that a text begins with: P, digits, perhaps a small letter, then no word goes on.
fn number_at_start(text: &str) -> Option<&str> {
    let rest = text.strip_prefix('P')?;
    let digits = rest.bytes().take_while(u8::is_ascii_digit).count();
    let letter = rest[digits..]
        .bytes()
        .take_while(u8::is_ascii_lowercase)
        .count();
    let goes_on = rest[digits + letter..].starts_with(|c: char| c.is_alphanumeric() || c == '_');
    (digits > 0 && letter < 2 && !goes_on).then(|| &text[..1 + digits + letter])
}

fn digits(number: &str) -> u32 {
    let digits: String = number.chars().filter(char::is_ascii_digit).collect();
    digits.parse().unwrap_or_default()
}

/// Every number that a comment begins with, and the line it stands in.
fn quotes(text: &str) -> Vec<(usize, String)> {
    let mut found = Vec::new();
    for (line, content) in (1..).zip(text.lines()) {
        for comment in content.split("//").skip(1) {
            let mut rest = comment.trim_start_matches(['/', '!', ' ']);
            while let Some(number) = number_at_start(rest) {
                found.push((line, number.to_owned()));
                rest = rest[number.len()..].trim_start_matches([',', ' ']);
            }
        }
    }
    found
}

/// What of a file is a test: all of it below a `tests` folder, else what follows `#[cfg(test)]`.
fn test_part<'a>(file: &Path, text: &'a str) -> &'a str {
    let within = file.strip_prefix(root()).unwrap_or(file);
    let is_test = within.with_extension("").iter().any(|part| part == "tests");
    if is_test {
        text
    } else {
        text.find("#[cfg(test)]").map_or("", |at| &text[at..])
    }
}

// === links ===

/// Targets of the links in a document, code left out.
fn links(text: &str) -> Vec<String> {
    let prose = without_code(text);
    let mut found = Vec::new();
    let mut rest = prose.as_str();
    while let Some(at) = rest.find("](") {
        rest = &rest[at + 2..];
        let target = rest.split(')').next().unwrap_or_default();
        found.extend(target.split_whitespace().next().map(str::to_owned));
    }
    found
}

fn without_code(text: &str) -> String {
    let mut prose = String::new();
    let mut in_block = false;
    for line in text.lines() {
        if line.trim_start().starts_with("```") {
            in_block = !in_block;
        } else if !in_block {
            prose.extend(line.split('`').step_by(2));
            prose.push('\n');
        }
    }
    prose
}

/// Why a link leads nowhere, if it does. Other hosts are not asked.
fn broken(document: &Path, text: &str, link: &str) -> Option<String> {
    if link.contains("://") || link.starts_with("mailto:") {
        return None;
    }
    let (path, anchor) = link.split_once('#').unwrap_or((link, ""));
    let target = document.parent()?.join(path);
    if !path.is_empty() && !target.exists() {
        return Some("does not exist".to_owned());
    }
    let text = if path.is_empty() {
        text.to_owned()
    } else {
        read(&target)
    };
    let found = anchor.is_empty() || anchors(&text).contains(anchor);
    (!found).then(|| format!("has no heading #{anchor}"))
}

/// The anchors of a document's headings, as forges make them.
fn anchors(text: &str) -> BTreeSet<String> {
    text.lines()
        .filter(|line| line.starts_with('#'))
        .map(|line| line.trim_start_matches('#').trim().to_lowercase())
        .map(|heading| {
            let kept = heading
                .chars()
                .filter(|c| c.is_alphanumeric() || matches!(c, ' ' | '-' | '_'));
            kept.map(|c| if c == ' ' { '-' } else { c }).collect()
        })
        .collect()
}
