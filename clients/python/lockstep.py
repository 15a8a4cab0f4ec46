"""A thin client for the socket of a Lockstep worker. Standard library only; copy it or import it.

    worker = lockstep.Worker("/var/run/lockstep/worker.sock")
    worker.consume(handle, stopping)        # handle(message) for each, in order, until stopping()

Each call of `Worker` is one call of docs/application.md, with the same fields and answers.
"""

import base64
import http.client
import json
import os
import socket
import time


class Unreachable(Exception):
    """There was no answer. The call may have arrived all the same; repeating it does no harm."""


class Refused(Exception):
    """The worker answered with an error: `status`, and its `code`, `message` and `hint`."""

    def __init__(self, status, problem, retry_after):
        self.status = status
        self.code = problem.get("code", "unknown")
        self.hint = problem.get("hint", "")
        self.retry_after = retry_after
        super().__init__(f"{self.code} ({status}): {problem.get('message', '')}; {self.hint}")

    @property
    def passes(self):
        """Whether the same call may succeed later."""
        return self.status >= 500 or self.status == 408


class Observer:
    """What `Worker.consume` tells whoever wants to count or log; override what is of interest."""

    def acking(self, positions):
        """These are about to be acknowledged; said again before each repetition."""

    def acked(self, results):
        """The answer to the last `acking`, in its order; empty if the call itself was refused."""

    def nacking(self, position, error):
        """This message failed and is about to be given back."""

    def trouble(self, error):
        """A call did not succeed; it is tried again."""


class _Connection(http.client.HTTPConnection):
    def __init__(self, path, timeout):
        super().__init__("localhost", timeout=timeout)
        self._path = path

    def connect(self):
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.sock.settimeout(self.timeout)
        self.sock.connect(self._path)


class Worker:
    """One connection to a worker, for one thread. Readers that share a socket each need a `session`."""

    def __init__(self, path=None, session=None, timeout=60):
        self._path = path or os.environ.get("LOCKSTEP_SOCKET", "/var/run/lockstep/worker.sock")
        self._headers = {"Content-Type": "application/json"}
        if session:
            self._headers["lockstep-session"] = session
        self._timeout = timeout
        self._connection = None

    def fetch(self, **fields):
        """Takes messages. `payload` is bytes in what is returned."""
        messages = self.call("POST", "/v1/fetch", fields)["messages"]
        for message in messages:
            message["payload"] = base64.b64decode(message["payload"])
        return messages

    def ack(self, positions, **fields):
        """Says that everything up to these positions is done; one result for each."""
        return self.call("POST", "/v1/ack", {"positions": positions, **fields})["results"]

    def nack(self, positions, error, **fields):
        """Says that these messages failed; they are tried again in their place."""
        body = {"messages": positions, "error": error, **fields}
        return self.call("POST", "/v1/nack", body)["results"]

    def publish(self, payload, **fields):
        """Publishes bytes, by `key` or `subject`; name an `id` to be able to repeat it."""
        payload = base64.b64encode(payload).decode()
        return self.call("POST", "/v1/publish", {"payload": payload, **fields})

    def status(self):
        """What the member is and holds."""
        return self.call("GET", "/v1/status")

    def call(self, method, path, body=None):
        """One call; the answer, or `Refused` or `Unreachable`."""
        try:
            if self._connection is None:
                self._connection = _Connection(self._path, self._timeout)
            data = None if body is None else json.dumps(body)
            self._connection.request(method, path, data, self._headers)
            response = self._connection.getresponse()
            answer = json.loads(response.read() or b"{}")
        except (OSError, http.client.HTTPException, ValueError) as error:
            if self._connection is not None:
                self._connection.close()
            self._connection = None
            raise Unreachable(f"no answer from {self._path}: {error!r}") from error
        if response.status == 200:
            return answer
        raise Refused(response.status, answer, int(response.headers.get("Retry-After") or 0))

    def consume(self, handle, stopping=lambda: False, observer=None, **fields):
        """Hands over every message in order, and acknowledges those for which `handle` returned.

        A message for which it raised is given back; what follows it in its partition waits. No
        worker, a worker that starts anew, a group that is not there yet: all are waited for. Once
        `stopping()` is true, what was fetched is finished and acknowledged, and that is all: fetch
        no more at a time (`max_messages`) than can be done while the application ends. `fields` are
        those of `fetch`.
        """
        observer = observer or Observer()
        fields = {"max_wait": "1s", **fields}
        while not stopping():
            attempt = lambda: self.fetch(**fields)
            messages = self._until_answered(attempt, stopping, observer, last_tries=0)
            self._handle(messages or [], handle, stopping, observer)

    def _handle(self, messages, handle, stopping, observer):
        done, failed, flushed = {}, {}, time.monotonic()
        for message in messages:
            partition = message["partition"]
            if partition in failed:
                continue
            try:
                handle(message)
                done[partition] = position_of(message)
            except Exception as error:  # whatever it is: the message is not done
                failed[partition] = (position_of(message), f"{type(error).__name__}: {error}")
            if time.monotonic() - flushed > 1:  # slow work is acknowledged as it goes
                self._acknowledge(done, stopping, observer)
                flushed = time.monotonic()
        self._acknowledge(done, stopping, observer)
        for position, error in failed.values():
            observer.nacking(position, error)
            self._until_answered(lambda: self.nack([position], error), stopping, observer)

    def _acknowledge(self, done, stopping, observer):
        positions = list(done.values())
        done.clear()

        def attempt():
            observer.acking(positions)
            return self.ack(positions)

        if positions:
            observer.acked(self._until_answered(attempt, stopping, observer) or [])

    def _until_answered(self, attempt, stopping, observer, last_tries=20):
        """Repeats a call until it is answered; while stopping, only so many times."""
        while True:
            wait = 0.1
            try:
                return attempt()
            except Unreachable as error:
                observer.trouble(error)
            except Refused as error:
                observer.trouble(error)
                if not error.passes:  # time does not heal it; but it must not become a busy loop
                    time.sleep(1)
                    return None
                wait = min(max(error.retry_after, wait), 1)
            if stopping():
                last_tries -= 1
                if last_tries < 0:
                    return None
            time.sleep(wait)


def position_of(message):
    """The token of a message: what `ack` and `nack` take."""
    return {name: message[name] for name in ("partition", "epoch", "sequence")}
