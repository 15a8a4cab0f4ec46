//! The rings of the crate, checked: arrows between modules point inwards only, and the core is pure.

#![allow(
    clippy::expect_used,
    clippy::panic,
    reason = "a test stops at what it cannot read"
)]

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

/// What each module of the crate may use, besides itself. A module that is not listed is refused:
/// whoever adds one has to say where it belongs.
const ARROWS: &[(&str, &[&str])] = &[
    ("group", &[]),
    ("wire", &["group"]),
    // Adapters: one outside world each. They do not know each other.
    ("nats", &["group", "wire", "singles"]),
    ("k8s", &["group", "wire", "singles"]),
    ("crd", &["group", "wire", "singles"]),
    // Drivers: tasks, clock, order of effects. They meet in documents, not in code.
    (
        "coordinator",
        &["group", "wire", "nats", "k8s", "crd", "singles"],
    ),
    (
        "worker",
        &["group", "wire", "nats", "k8s", "crd", "singles"],
    ),
    // What is made of a driver: the controller runs coordinators, the library's reader is a member.
    (
        "controller",
        &[
            "coordinator",
            "group",
            "wire",
            "nats",
            "k8s",
            "crd",
            "singles",
        ],
    ),
    (
        "reader",
        &["worker", "group", "wire", "nats", "k8s", "crd", "singles"],
    ),
    // What the user typed, then what it means.
    (
        "cli",
        &[
            "controller",
            "coordinator",
            "worker",
            "reader",
            "group",
            "wire",
            "nats",
            "k8s",
            "crd",
            "singles",
        ],
    ),
];

/// Small things that adapters and drivers share. They know the core's types and each other.
const SINGLES: &[&str] = &[
    "backoff",
    "chance",
    "clock",
    "http",
    "metrics",
    "settings",
    "tasks",
    "telemetry",
];

/// Words that the core never says: it neither waits nor reads a clock, draws lots or logs.
const IMPURE: &[&str] = &[
    "async",
    "await",
    "Instant",
    "SystemTime",
    "thread_rng",
    "println",
    "eprintln",
];

/// The only crates of others that the core knows.
const CORE_CRATES: &[&str] = &["serde"];

#[test]
fn arrows_between_modules_point_inwards() {
    let wrong: Vec<String> = sources()
        .iter()
        .flat_map(|s| wrong_arrows(&s.path, &s.text))
        .collect();
    assert!(
        wrong.is_empty(),
        "arrows that point outwards:\n{}",
        wrong.join("\n")
    );
}

#[test]
fn the_core_knows_neither_clock_nor_chance_nor_client() {
    let crates = dependencies();
    let wrong: Vec<String> = sources()
        .iter()
        .filter(|s| module_path(&s.path).first().is_some_and(|m| m == "group"))
        .flat_map(|s| impurities(&s.path, &s.text, &crates))
        .collect();
    assert!(
        wrong.is_empty(),
        "the core must stay pure:\n{}",
        wrong.join("\n")
    );
}

#[test]
fn an_arrow_outwards_is_found_however_it_is_written() {
    let wrong = |path: &str, text: &str| wrong_arrows(Path::new(path), text).len();
    assert_eq!(wrong("src/wire/mod.rs", "use crate::nats::Bucket;"), 1);
    assert_eq!(
        wrong(
            "src/wire/mod.rs",
            "use crate::{group::Epoch, nats::{Bucket, self}};"
        ),
        1
    );
    assert_eq!(wrong("src/wire/mod.rs", "use super::nats::Bucket;"), 1);
    assert_eq!(
        wrong("src/wire/deep/er.rs", "use super::super::super::cli::X;"),
        1
    );
    assert_eq!(
        wrong(
            "src/wire/mod.rs",
            "fn f() { let x = crate::worker::start(); }"
        ),
        1
    );
    assert_eq!(
        wrong(
            "src/wire/mod.rs",
            "mod inner { use super::super::nats::X; }"
        ),
        1
    );
    assert_eq!(wrong("src/worker/mod.rs", "use crate::coordinator::X;"), 1);
    assert_eq!(wrong("src/group/mod.rs", "use crate::{wire, cli};"), 2);
    assert_eq!(
        wrong("src/novel/mod.rs", "use crate::group;"),
        1,
        "an unknown module is refused"
    );
    assert_eq!(wrong("src/clock.rs", "use crate::\n    nats::X;"), 1);
}

#[test]
fn arrows_inwards_comments_text_and_tests_are_left_alone() {
    let wrong = |path: &str, text: &str| wrong_arrows(Path::new(path), text);
    let fine = "use crate::group::Epoch; use super::super::group; // crate::cli\n/* crate::cli */";
    assert_eq!(wrong("src/wire/golden.rs", fine), Vec::<String>::new());
    assert_eq!(
        wrong(
            "src/wire/a.rs",
            r##"const X: &str = "crate::cli"; const Y: &str = r#"crate::"cli"#;"##
        ),
        Vec::<String>::new()
    );
    assert_eq!(
        wrong(
            "src/wire/a.rs",
            "#[cfg(test)]\nmod tests { use crate::cli; fn f() {} }"
        ),
        Vec::<String>::new()
    );
    assert_eq!(
        wrong(
            "src/wire/a.rs",
            "mod inner { use super::Own; } use super::golden;"
        ),
        Vec::<String>::new()
    );
    assert_eq!(
        wrong(
            "src/wire/a.rs",
            "fn f<'a>(x: &'a str) -> char { '\"' } // crate::cli"
        ),
        Vec::<String>::new()
    );
    let after = wrong(
        "src/wire/a.rs",
        "#[cfg(test)]\nmod tests { fn f() {} }\nuse crate::cli;",
    );
    assert_eq!(after.len(), 1, "what follows a test module is read again");
}

#[test]
fn an_impure_core_is_found() {
    let crates = [
        "tokio".to_owned(),
        "serde".to_owned(),
        "async_nats".to_owned(),
    ]
    .into();
    let found = |text: &str| impurities(Path::new("src/group/x.rs"), text, &crates).len();
    assert_eq!(found("async fn f() {}"), 1);
    assert_eq!(found("use std::time::Instant;"), 1);
    assert_eq!(found("fn f() { std::time::SystemTime::now(); }"), 1);
    assert_eq!(found("use tokio::time;"), 1);
    assert_eq!(found("use {serde::Serialize, async_nats::Client};"), 1);
    assert_eq!(found("fn f() { ::tokio::spawn(x); }"), 1);
    assert_eq!(
        found("use serde::Serialize; use std::time::Duration; // tokio::spawn"),
        0
    );
    assert_eq!(
        found("let tokio = 1; group::tokio::x();"),
        0,
        "a module of ours may have any name"
    );
}

// === what is read ===

struct Source {
    /// Relative to the package.
    path: PathBuf,
    text: String,
}

/// Every source file of the crate, test modules left out.
fn sources() -> Vec<Source> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut files = Vec::new();
    rust_files(&root.join("src"), &mut files);
    let all: Vec<Source> = files
        .into_iter()
        .map(|file| Source {
            text: fs::read_to_string(&file).expect("a source file"),
            path: file
                .strip_prefix(root)
                .expect("below the package")
                .to_owned(),
        })
        .collect();
    let tests: BTreeSet<Vec<String>> = all.iter().flat_map(test_modules).collect();
    let is_test = |s: &Source| {
        let path = module_path(&s.path);
        (1..=path.len()).any(|n| tests.contains(&path[..n]))
    };
    let kept: Vec<Source> = all.into_iter().filter(|s| !is_test(s)).collect();
    assert!(kept.len() > 10, "the sources were not found");
    kept
}

fn rust_files(folder: &Path, into: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).expect("a folder of sources") {
        let path = entry.expect("an entry").path();
        if path.is_dir() {
            rust_files(&path, into);
        } else if path.extension().is_some_and(|e| e == "rs") {
            into.push(path);
        }
    }
}

/// The names of the crates that the package depends on, as code spells them.
fn dependencies() -> BTreeSet<String> {
    let manifest = Path::new(env!("CARGO_MANIFEST_DIR")).join("Cargo.toml");
    let manifest = fs::read_to_string(manifest).expect("Cargo.toml");
    let table = |line: &str| {
        line.starts_with('[')
            .then(|| line.trim_matches(['[', ']']).to_owned())
    };
    let mut within = String::new();
    let mut crates = BTreeSet::new();
    for line in manifest.lines() {
        if let Some(name) = table(line) {
            within = name;
        } else if within.ends_with("dependencies")
            && let Some((name, _)) = line.split_once('=')
        {
            let name = name.trim().split('.').next().unwrap_or_default();
            crates.insert(name.replace('-', "_"));
        }
    }
    assert!(crates.contains("tokio"), "the dependencies were not found");
    crates
}

/// The module that a file is: `src/nats/bucket.rs` is `[nats, bucket]`, `src/lib.rs` is `[]`.
fn module_path(file: &Path) -> Vec<String> {
    let stem = file.with_extension("");
    let mut path: Vec<String> = stem
        .iter()
        .skip(1)
        .map(|part| part.to_string_lossy().into_owned())
        .collect();
    if path
        .last()
        .is_some_and(|last| ["mod", "lib", "main"].contains(&last.as_str()))
    {
        path.pop();
    }
    path
}

// === the two checks ===

fn wrong_arrows(file: &Path, text: &str) -> Vec<String> {
    let path = module_path(file);
    let Some(here) = path.first() else {
        return Vec::new();
    }; // lib.rs and main.rs hold it together
    let Some(allowed) = allowed(here) else {
        return vec![format!("{}: module `{here}` is in no ring", file.display())];
    };
    let used = used_modules(&path, &tokens(text));
    used.into_iter()
        .filter(|module| module != here && self::allowed(module).is_some())
        .filter(|module| !allowed.contains(&module.as_str()))
        .map(|module| format!("{}: `{here}` uses `{module}`", file.display()))
        .collect()
}

/// What a module may use; none if it is in no ring.
fn allowed(module: &str) -> Option<Vec<&'static str>> {
    if SINGLES.contains(&module) {
        return Some([SINGLES, &["group"]].concat());
    }
    let (_, allowed) = ARROWS.iter().find(|(name, _)| *name == module)?;
    let singles = if allowed.contains(&"singles") {
        SINGLES
    } else {
        &[]
    };
    Some([*allowed, singles].concat())
}

fn impurities(file: &Path, text: &str, crates: &BTreeSet<String>) -> Vec<String> {
    let tokens = tokens(text);
    let mut found = BTreeSet::new();
    for (at, token) in tokens.iter().enumerate() {
        let next = tokens.get(at + 1).map_or("", String::as_str);
        let foreign = crates.contains(token)
            && !CORE_CRATES.contains(&token.as_str())
            && next == "::"
            && starts_a_path(&tokens, at);
        if foreign || IMPURE.contains(&token.as_str()) {
            found.insert(format!("{}: `{token}`", file.display()));
        }
    }
    found.into_iter().collect()
}

/// Whether the token is the first of its path; `::tokio` counts, `group::tokio` does not.
fn starts_a_path(tokens: &[String], at: usize) -> bool {
    let before = |n: usize| {
        at.checked_sub(n)
            .and_then(|i| tokens.get(i))
            .map_or("", String::as_str)
    };
    before(1) != "." && (before(1) != "::" || !is_name(before(2)))
}

/// Top-level modules of the crate that this text names, by `crate::…` or by enough `super::`.
fn used_modules(path: &[String], tokens: &[String]) -> BTreeSet<String> {
    let mut used = BTreeSet::new();
    let mut depth = vec![path.len()]; // one entry per open brace: how deep the module there is
    let mut at = 0;
    while let Some(token) = tokens.get(at) {
        let here = depth.last().copied().unwrap_or_default();
        match token.as_str() {
            "{" => {
                let opens_module = at >= 2 && tokens[at - 2] == "mod";
                depth.push(here + usize::from(opens_module));
            }
            "}" => {
                depth.pop();
            }
            "crate" => at = take_names(tokens, at + 1, &mut used),
            "super" if starts_a_path(tokens, at) => {
                let mut ups = 1;
                while tokens.get(at + 2).is_some_and(|t| t == "super") {
                    at += 2;
                    ups += 1;
                }
                if ups >= here {
                    at = take_names(tokens, at + 1, &mut used);
                }
            }
            _ => {}
        }
        at += 1;
    }
    used
}

/// Takes the name, or the names in braces, that follow `::` at `from`; says where it stopped.
fn take_names(tokens: &[String], from: usize, used: &mut BTreeSet<String>) -> usize {
    if tokens.get(from).is_none_or(|t| t != "::") {
        return from - 1;
    }
    let Some(first) = tokens.get(from + 1) else {
        return from;
    };
    if first != "{" {
        used.insert(first.clone());
        return from + 1;
    }
    let mut open = 0_usize;
    for (at, token) in tokens.iter().enumerate().skip(from + 1) {
        let starts = matches!(tokens[at - 1].as_str(), "{" | ",");
        match token.as_str() {
            "{" => open += 1,
            "}" if open == 1 => return at,
            "}" => open -= 1,
            name if open == 1 && starts => {
                used.insert(name.to_owned());
            }
            _ => {}
        }
    }
    tokens.len()
}

// === reading Rust, roughly ===

fn is_name(token: &str) -> bool {
    token.starts_with(|c: char| c.is_alphabetic() || c == '_')
}

/// Modules that are compiled for tests alone: `#[cfg(test)] mod name;`.
fn test_modules(source: &Source) -> Vec<Vec<String>> {
    let tokens = all_tokens(&source.text);
    let starts = ["#", "[", "cfg", "(", "test", ")", "]", "mod"];
    tokens
        .windows(starts.len() + 2)
        .filter(|w| w[..starts.len()] == starts && w[starts.len() + 1] == ";")
        .map(|w| {
            let mut path = module_path(&source.path);
            path.push(w[starts.len()].clone());
            path
        })
        .collect()
}

/// Names and punctuation, without comments, literals and `#[cfg(test)]` modules.
fn tokens(text: &str) -> Vec<String> {
    let all = all_tokens(text);
    let starts = ["#", "[", "cfg", "(", "test", ")", "]", "mod"];
    let mut kept = Vec::new();
    let mut at = 0;
    while at < all.len() {
        let is_test_module = all[at..].starts_with(&starts.map(str::to_owned))
            && all.get(at + starts.len() + 1).is_some_and(|t| t == "{");
        if is_test_module {
            let mut open = 0_usize;
            while let Some(token) = all.get(at) {
                at += 1;
                open += usize::from(token == "{");
                if token == "}" {
                    open -= 1;
                    if open == 0 {
                        break;
                    }
                }
            }
        } else {
            kept.push(all[at].clone());
            at += 1;
        }
    }
    kept
}

fn all_tokens(text: &str) -> Vec<String> {
    let chars: Vec<char> = text.chars().collect();
    let mut tokens = Vec::new();
    let mut at = 0;
    while let Some(&c) = chars.get(at) {
        let rest = &chars[at..];
        if let Some(length) = comment(rest).or_else(|| literal(rest)) {
            at += length;
        } else if c.is_alphanumeric() || c == '_' {
            let length = rest
                .iter()
                .take_while(|c| c.is_alphanumeric() || **c == '_')
                .count();
            tokens.push(rest[..length].iter().collect());
            at += length;
        } else if rest.starts_with(&[':', ':']) {
            tokens.push("::".to_owned());
            at += 2;
        } else {
            if !c.is_whitespace() {
                tokens.push(c.to_string());
            }
            at += 1;
        }
    }
    tokens
}

/// The length of the comment that starts here.
fn comment(rest: &[char]) -> Option<usize> {
    if rest.starts_with(&['/', '/']) {
        return Some(rest.iter().take_while(|c| **c != '\n').count());
    }
    if !rest.starts_with(&['/', '*']) {
        return None;
    }
    let mut open = 0_usize;
    let mut at = 0;
    while at + 1 < rest.len() {
        match (rest[at], rest[at + 1]) {
            ('/', '*') => (open, at) = (open + 1, at + 2),
            ('*', '/') => (open, at) = (open - 1, at + 2),
            _ => at += 1,
        }
        if open == 0 {
            return Some(at);
        }
    }
    Some(rest.len())
}

/// The length of the text or character literal that starts here; lifetimes are none.
fn literal(rest: &[char]) -> Option<usize> {
    let quoted = |from: usize, quote: char| {
        let mut at = from;
        while let Some(c) = rest.get(at) {
            match c {
                '\\' => at += 2,
                c if *c == quote => return at + 1,
                _ => at += 1,
            }
        }
        rest.len()
    };
    match rest {
        ['"', ..] => Some(quoted(1, '"')),
        ['b' | 'c', '"', ..] => Some(quoted(2, '"')),
        ['\'', '\\', ..] | ['\'', _, '\'', ..] => Some(quoted(1, '\'')),
        ['\'', ..] => Some(1),
        ['r', '"' | '#', ..] => raw_literal(rest, 1),
        ['b' | 'c', 'r', '"' | '#', ..] => raw_literal(rest, 2),
        _ => None,
    }
}

/// The length of a raw text literal whose hashes start at `from`; `r#name` is none.
fn raw_literal(rest: &[char], from: usize) -> Option<usize> {
    let hashes = rest[from..].iter().take_while(|c| **c == '#').count();
    let body = from + hashes;
    (rest.get(body) == Some(&'"')).then(|| {
        let end: Vec<char> = std::iter::once('"')
            .chain(std::iter::repeat_n('#', hashes))
            .collect();
        let found = rest[body + 1..].windows(end.len()).position(|w| w == end);
        found.map_or(rest.len(), |n| body + 1 + n + end.len())
    })
}
