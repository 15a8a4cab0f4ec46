"""Is the worker there before the application, and still there when the application ends?

Writes one line for each into a file: what the worker answers to the very first call, without a
second try; when a message is in hand; and what it says of the acknowledgement at the end. Told to
`wait`, it ends when it is asked to, and takes its time for the message that it has.
"""

import os
import signal
import sys
import threading
import time

sys.path.insert(0, "/")
from app import Worker, position_of

FETCH = {"max_messages": 1, "max_wait": "1s"}

log = open(sys.argv[1], "a", buffering=1, encoding="utf-8")
asked_to_end = threading.Event()
signal.signal(signal.SIGTERM, lambda *_: asked_to_end.set())
worker = Worker(os.environ["LOCKSTEP_SOCKET"], asked_to_end.is_set)

first = worker.call("/v1/fetch", FETCH)
log.write(f"first {first[0] if first else 'nobody is there'}\n")
answer = first
while not (answer and answer[0] == 200 and answer[1].get("messages")):
    answer = worker.call("/v1/fetch", FETCH)
    time.sleep(0.05)
message = answer[1]["messages"][0]
log.write(f"holds {message['partition']} {message['sequence']}\n")
if sys.argv[2] == "wait":
    asked_to_end.wait()
    time.sleep(2)  # what the message still takes
last = worker.call("/v1/ack", {"positions": [position_of(message)], "wait": "COMMITTED"})
log.write(f"last {last[1]['results'][0]['status'] if last and last[0] == 200 else last}\n")
