#!/usr/bin/env python3
"""Makes the images, runs the lints and every test, and closes with the sum of what happened.

Cargo prints one `test result:` line per test program; this adds them up, so that
the last line answers the only question that most people have. It fails when
anything failed, when a program ended without a result, and when nothing ran.
"""

import os
import re
import subprocess
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
# What a test says that cannot run on this machine: it counts as skipped, not as passed.
SKIPPED = re.compile(r"SKIPPED \(counted\): ")
RESULT = re.compile(r"^test result: \w+\. (\d+) passed; (\d+) failed; (\d+) ignored;")


def run(*command):
    """Runs a command in the project's folder; says whether it went well."""
    return subprocess.run(command, cwd=ROOT, check=False).returncode == 0


def start_images():
    """Begins to make the images, where a node can run: none otherwise."""
    if run("make", "--no-print-directory", "able"):
        return subprocess.Popen(["make", "--no-print-directory", "images"], cwd=ROOT)
    print("no images are made: the tests that need a node are skipped, and counted", flush=True)
    return None


def run_and_sum(*command):
    """Runs a command, passing its output on; returns its success and the sums."""
    sums = [0, 0, 0]
    with subprocess.Popen(
        command,
        cwd=ROOT,
        stdout=subprocess.PIPE,
        text=True,
        encoding="utf-8",
        errors="replace",
    ) as child:
        for line in child.stdout:
            sys.stdout.write(line)
            sys.stdout.flush()
            found = RESULT.match(line)
            if found:
                sums = [have + int(more) for have, more in zip(sums, found.groups())]
            if SKIPPED.search(line):
                sums = [sums[0] - 1, sums[1], sums[2] + 1]
    return child.returncode == 0, sums


def main():
    troubles = []
    # Linking their program keeps one core busy for minutes; the lints take the other.
    images = start_images()
    if not run("make", "--no-print-directory", "lint"):
        troubles.append("the lints failed (see above, or run `make lint`)")
    if images is not None and images.wait() != 0:
        troubles.append("the images could not be made (see above, or run `make images`)")
    # The processes that the tests start; `cargo test` alone does not build them.
    built = run("cargo", "build", "--workspace", "--bins", "--locked")
    if not built:
        troubles.append("the programs do not build")
    ended_well, (passed, failed, skipped) = run_and_sum(
        "cargo", "test", "--workspace", "--locked", "--no-fail-fast"
    )
    if not ended_well and failed == 0:
        troubles.append("a test program did not build, or ended without a result")
    if passed + failed == 0:
        troubles.append("no test ran")
    for trouble in troubles:
        print(f"FAILED: {trouble}")
    failed += len(troubles)
    print(f"{passed} passed, {failed} failed, {skipped} skipped", flush=True)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
