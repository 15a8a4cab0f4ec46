#!/usr/bin/env python3
"""Fetches older nats-servers for the version matrix, as pip finds them, with pinned hashes.

    nats_versions.py REQUIREMENTS FOLDER

Each line of REQUIREMENTS becomes FOLDER/nats-server-VERSION. What is there already is left
alone. What cannot be had is said in one line, and is no error: the tests that want it say
`SKIPPED (counted)`.
"""

import os
import subprocess
import sys
import tempfile
import zipfile

PROGRAM = ".data/scripts/nats-server"


def requirements(path):
    """The versions that are wanted, each with its line."""
    with open(path, encoding="utf-8") as file:
        for line in file:
            line = line.strip()
            if line and not line.startswith("#"):
                yield line.split()[0].partition("==")[2], line


def fetch(line, target):
    """Downloads one wheel, and takes the program out of it."""
    with tempfile.TemporaryDirectory() as folder:
        wanted = os.path.join(folder, "wanted.txt")
        with open(wanted, "w", encoding="utf-8") as file:
            file.write(line + "\n")
        command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps"]
        command += ["--disable-pip-version-check", "--only-binary=:all:", "--require-hashes"]
        subprocess.run([*command, "-r", wanted, "-d", folder], check=True)
        wheel = next(name for name in os.listdir(folder) if name.endswith(".whl"))
        with zipfile.ZipFile(os.path.join(folder, wheel)) as archive:
            program = next(name for name in archive.namelist() if name.endswith(PROGRAM))
            # Written beside its place and then moved: whoever finds it finds all of it.
            part = f"{target}.part"
            with archive.open(program) as packed, open(part, "wb") as out:
                out.write(packed.read())
    os.chmod(part, 0o755)
    os.replace(part, target)


def main():
    _, path, folder = sys.argv
    os.makedirs(folder, exist_ok=True)
    for version, line in requirements(path):
        target = os.path.join(folder, f"nats-server-{version}")
        if os.path.exists(target):
            continue
        try:
            fetch(line, target)
        except (OSError, StopIteration, subprocess.CalledProcessError, zipfile.BadZipFile) as error:
            print(f"nats-server {version} cannot be had ({error}); the version matrix skips it")


if __name__ == "__main__":
    main()
