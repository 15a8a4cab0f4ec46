use clap::{CommandFactory, Parser};

use super::*;

/// Lines of a terminal that `--help` may fill.
const SCREEN: usize = 50;

fn commands(command: &clap::Command, path: &str, found: &mut Vec<(String, clap::Command)>) {
    let path = format!("{path} {}", command.get_name()).trim().to_owned();
    for inner in command.get_subcommands() {
        commands(inner, &path, found);
    }
    found.push((path, command.clone()));
}

fn all_commands() -> Vec<(String, clap::Command)> {
    let mut root = command_line();
    root.build();
    let mut found = Vec::new();
    commands(&root, "", &mut found);
    found
}

#[test]
fn the_flags_are_consistent() {
    Cli::command().debug_assert();
}

/// What `--help` prints.
fn help(path: &str) -> String {
    let words = path.split(' ').chain(["--help"]);
    let shown = command_line().term_width(100).try_get_matches_from(words);
    shown.map(drop).unwrap_err().render().to_string()
}

#[test]
fn the_help_of_each_command_is_as_it_was_reviewed() {
    for (path, _) in all_commands() {
        insta::assert_snapshot!(path.replace(' ', "_"), help(&path));
    }
}

#[test]
fn the_help_of_each_command_fits_a_screen_and_gives_an_example() {
    for (path, command) in all_commands() {
        let help = help(&path);
        let lines = help.lines().count();
        assert!(lines <= SCREEN, "{path} --help has {lines} lines:\n{help}");
        let leads_on = command.has_subcommands();
        assert!(
            leads_on || help.contains("Example"),
            "{path} --help has no example"
        );
    }
}

#[test]
fn every_flag_has_its_environment_variable() {
    for (path, command) in all_commands() {
        let flags = command.get_arguments().filter(|a| a.get_long().is_some());
        for flag in flags.filter(|a| !matches!(a.get_id().as_str(), "help" | "version")) {
            let long = flag.get_long().unwrap();
            let expected = format!("LOCKSTEP_{}", long.to_uppercase().replace('-', "_"));
            let variable = flag.get_env().map(|e| e.to_string_lossy().into_owned());
            assert_eq!(variable, Some(expected), "{path} --{long}");
        }
    }
}

#[test]
fn contradictions_are_refused_before_anything_is_touched() {
    for wrong in [
        "lockstep partition-of --partitions 0 a",
        "lockstep partition-of --partitions 3 a --nats-user u",
        "lockstep partition-of --partitions 3 a --nats-creds f --nats-nkey g",
        "lockstep partition-of --partitions 3 a --tls-cert f",
        "lockstep partition-of --partitions 3 a --bucket-prefix a_b",
        "lockstep partition-of --partitions 3 a --log-level loud",
        "lockstep partition-of",
        "lockstep completions tcsh",
        "lockstep",
    ] {
        let parsed = Cli::try_parse_from(wrong.split(' '));
        let code = parsed.map(drop).unwrap_err().exit_code();
        assert_eq!(code, 2, "{wrong}");
    }
}
