#!/usr/bin/env python3
"""A small application behind a Lockstep worker: standard library only.

It fetches over the worker's Unix socket, notes what it is handed *before* it acknowledges
it, and acknowledges. Beside being an example, it is a witness: its log is what the history
checker judges. It survives a worker that restarts, a group that is not there yet, and its own
restart.

    app.py --socket /run/w1.sock --member w1 --log w1.jsonl [--mode slow --delay 0.2]
"""

import argparse
import base64
import http.client
import json
import os
import random
import signal
import socket
import sys
import time


class UnixConnection(http.client.HTTPConnection):
    """HTTP over a Unix socket."""

    def __init__(self, path, timeout):
        super().__init__("localhost", timeout=timeout)
        self.path = path

    def connect(self):
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.sock.settimeout(self.timeout)
        self.sock.connect(self.path)


class Worker:
    """The worker's JSON interface; every call is tried until it is answered."""

    def __init__(self, path, stopping):
        self.path = path
        self.stopping = stopping
        self.connection = None

    def call(self, path, body):
        """POSTs; returns (status, answer), or None if there was no answer (it may have arrived)."""
        try:
            if self.connection is None:
                self.connection = UnixConnection(self.path, timeout=30)
            self.connection.request(
                "POST", path, json.dumps(body), {"Content-Type": "application/json"}
            )
            response = self.connection.getresponse()
            answer = response.read()
            return response.status, json.loads(answer or b"{}")
        except (OSError, http.client.HTTPException, ValueError) as error:
            self.connection = None
            print(f"no answer from the worker: {error!r}", flush=True)
            return None


class History:
    """The log: one JSON object per line, one write per line."""

    def __init__(self, path, member):
        self.file = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
        self.member = member
        self.session = f"{member}-{os.getpid()}-{random.randrange(1 << 32):08x}"
        self.acks = 0

    def write(self, what, **fields):
        record = {"what": what, "member": self.member, "session": self.session, **fields}
        record.setdefault("at", time.clock_gettime_ns(time.CLOCK_BOOTTIME))
        os.write(self.file, (json.dumps(record) + "\n").encode())

    def next_ack(self):
        self.acks += 1
        return self.acks


class Application:
    def __init__(self, options):
        self.options = options
        self.stopping = False
        self.history = History(options.log, options.member)
        self.worker = Worker(options.socket, lambda: self.stopping)
        self.handled = 0
        signal.signal(signal.SIGTERM, self.stop)
        signal.signal(signal.SIGINT, self.stop)

    def stop(self, *_):
        self.stopping = True

    def run(self):
        while not self.stopping and not self.is_done():
            answer = self.worker.call(
                "/v1/fetch",
                {
                    "max_messages": self.options.window,
                    "max_wait": "1s",
                    "batch_wait": "2ms",
                },
            )
            if answer is None:
                time.sleep(0.1)
                continue
            status, body = answer
            if status == 503:  # not joined yet, or leaving
                time.sleep(0.1)
            elif status != 200:
                print(f"fetch answered {status}: {body}", flush=True)
                time.sleep(0.5)
            else:
                self.handle_all(body.get("messages", []))

    def is_done(self):
        return self.options.mode == "stop" and self.handled >= self.options.after

    def handle_all(self, messages):
        """Handles a batch in order; after a failure the rest of that partition waits."""
        done, failed = {}, set()
        for message in messages:
            partition = message["partition"]
            if partition in failed:
                continue
            if self.handle(message):
                done[partition] = message
            else:
                failed.add(partition)
                # What was done before it is acknowledged first.
                before = done.pop(partition, None)
                if before is not None:
                    self.acknowledge([before])
                self.give_back(message)
        if done:
            self.acknowledge(list(done.values()))

    def handle(self, message):
        payload = json.loads(base64.b64decode(message["payload"]))
        self.history.write(
            "seen",
            partition=message["partition"],
            epoch=message["epoch"],
            sequence=message["sequence"],
            key=payload["key"],
            n=payload["n"],
            attempt=message.get("attempt", 1),
        )
        self.handled += 1
        mode, after = self.options.mode, self.options.after
        if mode == "slow":
            time.sleep(self.options.delay)
        elif mode == "crash" and self.handled > after:
            print("crashing, as told", flush=True)
            os._exit(1)
        elif mode == "hang" and self.handled > after:
            print("hanging, as told", flush=True)
            while True:
                time.sleep(3600)
        return not (mode == "poison" and payload["key"] == self.options.key)

    def acknowledge(self, messages):
        """Acknowledges everything up to these, and repeats it until there is an answer."""
        while True:
            acks = [self.ack_of(message) for message in messages]
            for ack in acks:
                self.history.write("acking", **ack)
            positions = [position_of(message) for message in messages]
            answer = self.worker.call("/v1/ack", {"positions": positions})
            if answer is not None and answer[0] == 200:
                for ack, result in zip(acks, answer[1]["results"]):
                    refused = result["status"] == "NOT_OWNED"
                    self.history.write("refused" if refused else "acked", **ack)
                return
            print(f"ack answered {answer}", flush=True)
            if answer is not None and 400 <= answer[0] < 500:
                for ack in acks:
                    self.history.write("refused", **ack)
                return
            if self.stopping:
                return
            time.sleep(0.1)

    def give_back(self, message):
        ack = self.ack_of(message)
        self.history.write("nacking", **ack)
        body = {"messages": [position_of(message)], "error": "poisoned, as told"}
        answer = self.worker.call("/v1/nack", body)
        if answer is None or answer[0] != 200:
            print(f"nack answered {answer}", flush=True)

    def ack_of(self, message):
        return {"ack": self.history.next_ack(), **position_of(message)}


def position_of(message):
    return {name: message[name] for name in ("partition", "epoch", "sequence")}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--socket", required=True, help="the worker's Unix socket")
    parser.add_argument("--member", required=True, help="the member's name, for the log")
    parser.add_argument("--log", required=True, help="where the history goes")
    parser.add_argument("--window", type=int, default=100, help="messages per fetch")
    parser.add_argument(
        "--mode", choices=["ok", "slow", "hang", "crash", "poison", "stop"], default="ok"
    )
    parser.add_argument("--delay", type=float, default=0.05, help="slow: seconds per message")
    parser.add_argument("--after", type=int, default=20, help="hang, crash, stop: after so many")
    parser.add_argument("--key", default="", help="poison: the key that always fails")
    Application(parser.parse_args()).run()
    return 0


if __name__ == "__main__":
    sys.exit(main())
