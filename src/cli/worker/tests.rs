use super::*;
use crate::cli::Cli;
use clap::Parser;

fn parsed(line: &str) -> Result<Flags, String> {
    let cli = Cli::try_parse_from(line.split(' ')).map_err(|error| error.to_string())?;
    let crate::cli::Command::Worker(flags) = cli.command else {
        panic!("{cli:?}")
    };
    Ok(flags)
}

#[test]
fn a_worker_needs_its_group_and_its_socket() {
    let flags = parsed("lockstep worker --group shop/orders --socket /s").unwrap();
    let start = flags.run.meaning().unwrap();
    assert_eq!(start.settings.group.to_string(), "shop/orders");
    assert_eq!(start.drain_timeout, Duration::from_secs(20));
    for (line, named) in [
        ("lockstep worker", "--group"),
        ("lockstep worker --group orders", "--socket"),
        ("lockstep worker --group a/b/c --socket /s", "a/b/c"),
        (
            "lockstep worker --group orders --socket /s --http-addr here",
            "--http-addr",
        ),
        (
            "lockstep worker --group orders --socket /s --member-id ",
            "--member-id",
        ),
        (
            "lockstep worker --group orders --socket /s --drain-timeout 5",
            "--drain-timeout",
        ),
    ] {
        let error = parsed(line).unwrap_err();
        assert!(error.contains(named), "{line}: {error}");
    }
}

#[test]
fn a_running_worker_is_asked_by_its_socket_alone() {
    for line in [
        "lockstep worker drain --socket /s --timeout 5s",
        "lockstep worker probe ready --socket /s",
    ] {
        let flags = parsed(line).unwrap();
        assert!(flags.command.is_some(), "{line}");
    }
    assert!(parsed("lockstep worker probe well --socket /s").is_err());
    assert!(parsed("lockstep worker --group orders drain --socket /s").is_err());
}

#[test]
fn workers_without_a_label_get_different_ones() {
    let (a, b) = (default_id(), default_id());
    assert_ne!(a, b);
    assert!(parse_member_id(a.as_str()).is_ok(), "{a}");
}
