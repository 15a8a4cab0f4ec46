#!/usr/bin/env python3
"""Changes the core in many small ways, one at a time, and sees whether a test notices.

The core (src/group) needs nothing but std and serde, so it is put into a crate of its own under
target/mutants/crate, where a build takes seconds, and cargo-mutants runs there. Each mutant meets
the fast tests first; only what survives them meets the properties as well. What came out is kept in
target/mutants/results.json, so that a run may be cut into files and shards; mutants of code that
has changed since are forgotten.

    tools/mutants.py                                    everything (hours)
    tools/mutants.py --file src/group/decide/joins.rs   one file; may be given more than once
    tools/mutants.py --shard 0/8                        an eighth
    tools/mutants.py --again                            only what was missed before
    tools/mutants.py --report                           what is known, as a table
"""

import argparse
import collections
import json
import os
import resource
import shutil
import subprocess
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
WORK = os.path.join(ROOT, "target", "mutants")
CRATE = os.path.join(WORK, "crate")
RESULTS = os.path.join(WORK, "results.json")

# The name is that of the real crate: examples in the documentation say it.
MANIFEST = """[workspace]

[package]
name = "lockstep"
version = "0.0.0"
edition = "2024"
publish = false

[dependencies]
serde = { version = "1", features = ["derive", "rc"] }

[dev-dependencies]
proptest = "1"
serde_json = { version = "1", features = ["preserve_order"] }

[profile.dev]
debug = false
"""

# A mutant may loop for ever, and fill the memory meanwhile.
SECONDS = 60
MEMORY = 4 << 30

# The slow tests, by a part of their names: they meet only what survives the others.
SLOW = "properties"

# Folders whose mutants meet the tests with these words in their names first.
NEAREST = {"src/group/member/": ["member", "ledger"], "src/group/ledger/": ["member", "ledger"]}

OUTCOMES = {
    "CaughtMutant": "caught",
    "MissedMutant": "missed",
    "Unviable": "unviable",
    "Timeout": "timeout",
}


def make_crate():
    """The core as it is now, as a crate."""
    sources = os.path.join(CRATE, "src")
    shutil.rmtree(sources, ignore_errors=True)
    shutil.copytree(os.path.join(ROOT, "src", "group"), os.path.join(sources, "group"))
    with open(os.path.join(sources, "lib.rs"), "w", encoding="utf-8") as lib:
        lib.write("//! The core alone, for mutants.\npub mod group;\n")
    with open(os.path.join(CRATE, "Cargo.toml"), "w", encoding="utf-8") as manifest:
        manifest.write(MANIFEST)
    shutil.copy(os.path.join(ROOT, "Cargo.lock"), CRATE)


def build_once():
    """What is built here is copied, and not built again for each job."""
    environment = dict(os.environ, CARGO_INCREMENTAL="1")
    subprocess.run(["cargo", "test", "--lib", "--no-run"], cwd=CRATE, env=environment, check=True)


def cargo_mutants(arguments, tests=()):
    """Runs cargo-mutants in the crate; returns what it wrote to its output, if that is asked for."""
    command = ["cargo", "mutants", "--no-config", *arguments]
    if tests:
        command += ["--", *tests]
    environment = dict(os.environ, CARGO_INCREMENTAL="1", TMPDIR=os.path.join(WORK, "tmp"))
    limits = lambda: resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    listing = "--list" in arguments
    done = subprocess.run(
        command,
        cwd=CRATE,
        env=environment,
        preexec_fn=limits,
        stdout=subprocess.PIPE if listing else None,
        text=True,
        check=listing,
    )
    return done.stdout


def names_of(listing):
    return {mutant["name"]: mutant["file"] for mutant in json.loads(listing)}


def known():
    try:
        with open(RESULTS, encoding="utf-8") as results:
            return json.load(results)
    except FileNotFoundError:
        return {}


def take_in(results):
    """Adds what the last run found."""
    path = os.path.join(WORK, "out", "mutants.out", "outcomes.json")
    with open(path, encoding="utf-8") as outcomes:
        for outcome in json.load(outcomes)["outcomes"]:
            if outcome["scenario"] == "Baseline":
                if outcome["summary"] != "Success":
                    sys.exit("the tests fail without any mutant")
                continue
            name = outcome["scenario"]["Mutant"]["name"]
            results[name] = OUTCOMES.get(outcome["summary"], outcome["summary"])


def nearest(files):
    """Words for the tests that are nearest to these files; none: all tests."""
    words = [words for file in files for at, words in NEAREST.items() if file.startswith(at)]
    return words[0] if files and len(words) == len(files) else []


def exactly(name):
    """A regular expression for one mutant."""
    escaped = "".join("\\" + letter if letter in r"\.+*?()|[]{}^$" else letter for letter in name)
    return f"^{escaped}$"


def run(options, missed, slow):
    selection = [word for file in options.file for word in ("--file", file)]
    selection += ["--shard", options.shard] if options.shard else []
    if options.again:
        selection += [word for name in missed for word in ("--re", exactly(name))]
    arguments = [*selection, "--output", os.path.join(WORK, "out"), "--jobs", str(options.jobs)]
    arguments += ["--copy-target", "true", "--timeout", str(SECONDS), "--colors", "never"]
    if slow:
        cargo_mutants([*arguments, "--iterate"], ["--lib"])
    else:
        cargo_mutants(arguments, ["--lib", "--", *nearest(options.file), "--skip", SLOW])


def report(files, results):
    columns = ("mutants", "caught", "timeout", "unviable", "missed", "not run")
    rows = collections.defaultdict(collections.Counter)
    for name, file in files.items():
        for row in (file, "all"):
            rows[row]["mutants"] += 1
            rows[row][results.get(name, "not run")] += 1
    print("| file | " + " | ".join(columns) + " |")
    print("|---|" + "---:|" * len(columns))
    for file in sorted(rows, key=lambda row: (row == "all", row)):
        cells = [str(rows[file][column]) for column in columns]
        print(f"| `{file}` | " + " | ".join(cells) + " |")
    for name in sorted(files):
        if results.get(name) == "missed":
            print(f"missed: {name}")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--file", action="append", default=[], help="a file or glob of src/group")
    parser.add_argument("--shard", help="K/N: the K-th of N parts, from 0")
    parser.add_argument("--jobs", type=int, default=2, help="mutants at the same time (2)")
    parser.add_argument("--again", action="store_true", help="only what was missed before")
    parser.add_argument("--report", action="store_true", help="only say what is known")
    options = parser.parse_args()
    os.makedirs(os.path.join(WORK, "tmp"), exist_ok=True)
    make_crate()
    files = names_of(cargo_mutants(["--list", "--json"]))
    results = {name: how for name, how in known().items() if name in files}
    if not options.report:
        missed = [name for name, how in results.items() if how == "missed"]
        if options.again and not missed:
            sys.exit("nothing was missed")
        build_once()
        shutil.rmtree(os.path.join(WORK, "out"), ignore_errors=True)
        for slow in (False, True):
            try:
                run(options, missed, slow)
            finally:  # also when it is interrupted
                take_in(results)
                with open(RESULTS, "w", encoding="utf-8") as kept:
                    json.dump(results, kept, indent=0, sort_keys=True)
    report(files, results)
    return 1 if any(results.get(name) == "missed" for name in files) else 0


if __name__ == "__main__":
    sys.exit(main())
