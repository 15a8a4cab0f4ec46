#!/usr/bin/env python3
"""Handles the messages of a Lockstep worker in order. Ends well on SIGTERM.

    app.py --socket /var/run/lockstep/worker.sock
"""

import argparse
import json
import os
import pathlib
import signal
import sys
import time

sys.path.append(str(pathlib.Path(__file__).resolve().parents[3] / "clients/python"))
import lockstep


class History(lockstep.Observer):
    """With --log: what was seen and acknowledged, as the history checker in e2e/ reads it."""

    def __init__(self, path, member):
        self.file = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
        self.who = {"member": member, "session": f"{member}-{os.getpid()}-{time.time_ns()}"}
        self.acks, self.pending = 0, []

    def write(self, what, **fields):
        record = {"what": what, **self.who, **fields}
        record["at"] = time.clock_gettime_ns(time.CLOCK_BOOTTIME)
        os.write(self.file, (json.dumps(record) + "\n").encode())

    def seen(self, message):
        order = json.loads(message["payload"])
        position, attempt = lockstep.position_of(message), message["attempt"]
        self.write("seen", **position, key=order["key"], n=order["n"], attempt=attempt)

    def acking(self, positions):
        self.pending = [self.numbered(position) for position in positions]
        for ack in self.pending:
            self.write("acking", **ack)

    def acked(self, results):
        for ack, result in zip(self.pending, results):
            self.write("refused" if result["status"] == "NOT_OWNED" else "acked", **ack)

    def nacking(self, position, error):
        self.write("nacking", **self.numbered(position))

    def trouble(self, error):
        print(error, flush=True)

    def numbered(self, position):
        self.acks += 1
        return {"ack": self.acks, **position}


class Application:
    def __init__(self, history, fail_every):
        self.history, self.fail_every = history, fail_every
        self.handled, self.stopped = 0, False
        signal.signal(signal.SIGTERM, self.stop)
        signal.signal(signal.SIGINT, self.stop)

    def stop(self, *_):
        self.stopped = True

    def handle(self, message):
        """The work itself. What it raises on is tried again, and nothing overtakes it."""
        if self.history:
            self.history.seen(message)
        else:
            print(message["partition"], message["sequence"], message["key"], flush=True)
        self.handled += 1
        if self.fail_every and self.handled % self.fail_every == 0 and message["attempt"] == 1:
            raise RuntimeError("failing once, as told")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--socket", help="the worker's socket; else LOCKSTEP_SOCKET")
    parser.add_argument("--log", help="write a history to this file")
    parser.add_argument("--member", default="member", help="the member's name in the history")
    parser.add_argument("--fail-every", type=int, default=0, help="fail each so-many-th message once")
    options = parser.parse_args()
    history = History(options.log, options.member) if options.log else None
    application = Application(history, options.fail_every)
    worker = lockstep.Worker(options.socket)
    worker.consume(application.handle, lambda: application.stopped, history)
    print(f"ended after {application.handled} messages", flush=True)


if __name__ == "__main__":
    main()
