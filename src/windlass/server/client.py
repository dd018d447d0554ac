"""The client of the daemon's API: synchronous, small, standard library only.

It speaks HTTP/1.0, one connection a request: on a unix socket that costs less than importing `http.client`, the body is
the bare bytes up to the end, and nobody has to know whether a kept connection is still good.

Every call raises `errors.ApiError`: with the daemon's own words, or NO_DAEMON when nobody listens, or GONE when the
daemon went away before it answered.
"""

from __future__ import annotations

import json
import select
import time
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any, Self
from urllib.parse import quote, urlencode

from windlass.server import unix_socket as unix
from windlass.server.errors import ApiError, Code, error_from_json

Json = dict[str, Any]
_TIMEOUT = 60.0
"""Seconds that one answer may take. A turn takes milliseconds; a disk that hangs takes longer."""


class Client:
    """The daemon of a state folder."""

    succeeded = False

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.facts: Json = {}
        """What it said when it was found."""

    @property
    def kind(self) -> str:
        """What answers: "up" is a daemon, "run" the controller of somebody's foreground job."""
        return str(self.facts["kind"])

    def ping(self) -> Json:
        """Version, pid, kind ("up" or "run") and what the cluster is."""
        return self._get("/v1/ping")

    def submit(self, submissions: Sequence[Any], **facts: Any) -> list[str]:
        """Hand in jobs, all or none. Returns their ids in order; an array has one."""
        body = {"submissions": [asdict(submission) for submission in submissions], **facts}
        return list(self.call("POST", "/v1/jobs", body)["ids"])

    def jobs(self, **filters: Any) -> list[Json]:
        """Jobs as lines of a listing, next first."""
        return list(self._get("/v1/jobs", filters)["jobs"])

    def job(self, name: str) -> Json:
        """A job's whole story."""
        return self._get(f"/v1/jobs/{quote(name)}")

    def why(self, name: str, what_if: str = "") -> Json:
        """Why a job waits, with counts; `what_if`: as if it had asked for that."""
        return self._get(f"/v1/jobs/{quote(name)}/why", {"what_if": what_if})

    def why_all(self) -> Json:
        """All that wait, each with its reason."""
        return self._get("/v1/why")

    def shares(self) -> Json:
        """The queues: what each should have, and has."""
        return self._get("/v1/shares")

    def snapshot(self, *, planned: bool = False) -> Json:
        """Everything the scheduler knows, now or (`planned`) when it last decided."""
        return self._get("/v1/snapshot", {"planned": "1"} if planned else None)

    def reservations(self) -> list[Json]:
        """What is reserved, soonest first."""
        return list(self._get("/v1/reservations")["reservations"])

    def reserve(self, **asked: Any) -> Json:
        """Reserve nodes; see `reserving.Asked`."""
        return self.call("POST", "/v1/reservations", asked)

    def unreserve(self, name: str) -> Json:
        """Give the nodes of a reservation back."""
        return self.call("DELETE", f"/v1/reservations/{quote(name)}")

    def act_on_all(self, verb: str, names: Sequence[str], **how: Any) -> Json:
        """Cancel, suspend or resume several: `jobs` to which it was done, and `errors`."""
        return self.call("POST", f"/v1/{verb}", {"jobs": list(names), **how})

    def act(self, verb: str, name: str, **how: Any) -> Json:
        """Cancel, suspend or resume a job (or a whole array)."""
        return self.call("POST", f"/v1/jobs/{quote(name)}/{verb}", how)

    def nodes(self) -> list[Json]:
        """The nodes, and who holds what on them."""
        return list(self._get("/v1/nodes")["nodes"])

    def queues(self) -> list[Json]:
        """The queues, with quota and use."""
        return list(self._get("/v1/queues")["queues"])

    def history(self, **filters: Any) -> list[Json]:
        """Jobs that have ended, latest first."""
        return list(self._get("/v1/history", filters)["jobs"])

    def down(self, *, keep_jobs: bool) -> Json:
        """End the daemon; its jobs go on under the supervisor, or are stopped first."""
        return self.call("POST", "/v1/down", {"keep_jobs": keep_jobs})

    def follow(self, name: str, after: int = 0) -> Stream:
        """The events of a job from number `after` on, as they happen."""
        return Stream(self.folder, name, after)

    def call(self, method: str, path: str, body: object = None) -> Json:
        """One request and its answer."""
        raw = b"" if body is None else json.dumps(body, ensure_ascii=False).encode()
        with _Exchange(self.folder, method, path, raw) as exchange:
            exchange.read_all()
            content = exchange.content()
        if exchange.status >= 400:
            raise error_from_json(content, exchange.status)
        return content

    def close(self) -> None:
        """Nothing is kept open between requests."""

    def _get(self, path: str, filters: Json | None = None) -> Json:
        given = {key: value for key, value in (filters or {}).items() if value not in (None, "", [])}
        return self.call("GET", f"{path}?{urlencode(given, doseq=True)}" if given else path)


class _Exchange:
    """A request that has been sent, and its answer as far as it has come."""

    def __init__(self, folder: Path, method: str, path: str, body: bytes = b"", head: str = "") -> None:
        self.status = 0
        self.buffer = b""
        try:
            self.socket = unix.connect(folder, _TIMEOUT)
        except OSError as trouble:
            raise no_daemon_error(trouble) from None
        request = f"{method} {path} HTTP/1.0\r\nContent-Length: {len(body)}\r\n{head}\r\n".encode() + body
        try:
            self.socket.sendall(request)
            while b"\r\n\r\n" not in self.buffer:
                self.read()
        except OSError as trouble:
            self.close()
            raise gone_error(trouble) from None
        except ApiError:
            self.close()
            raise
        first, _, self.buffer = self.buffer.partition(b"\r\n\r\n")
        self.status = int(first.split(None, 2)[1])

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_error: object) -> None:
        self.close()

    def close(self) -> None:
        self.socket.close()

    def read(self) -> None:
        """What has come, at least a byte. Raises ApiError GONE at the end."""
        try:
            came = self.socket.recv(65536)
        except OSError as trouble:
            raise gone_error(trouble) from None
        if not came:
            raise gone_error(EOFError())
        self.buffer += came

    def read_all(self) -> None:
        """The whole answer."""
        parts = [self.buffer]
        try:
            while part := self.socket.recv(65536):
                parts.append(part)
        except OSError as trouble:
            raise gone_error(trouble) from None
        self.buffer = b"".join(parts)

    def content(self) -> Json:
        """The answer as JSON. Raises ApiError GONE if it was cut off."""
        try:
            content = json.loads(self.buffer)
        except ValueError as trouble:
            raise gone_error(trouble) from None
        return content if isinstance(content, dict) else {}


def no_daemon_error(trouble: OSError) -> ApiError:
    """Nobody listens, or may not be reached."""
    if isinstance(trouble, PermissionError):
        return ApiError(Code.NOT_ALLOWED, "the state folder belongs to another user", "choose your own with --state")
    return ApiError(Code.NO_DAEMON, "no Windlass daemon is running", "start one with: windlass up -d")


def gone_error(trouble: Exception) -> ApiError:
    """It was there, and is not any more."""
    if isinstance(trouble, TimeoutError):
        return ApiError(
            Code.GONE, f"the daemon has not answered for {_TIMEOUT:g} s", "see daemon.log in the state folder"
        )
    return ApiError(Code.GONE, "the daemon went away before it answered", "start it again with: windlass up -d")


class Stream:
    """Server-sent events of some jobs, or of all. `poll` gives what has come; `after` is where to resume."""

    def __init__(self, folder: Path, names: str, after: int = 0) -> None:
        self.after = after
        query = urlencode({"job": names}) if names else ""
        self._exchange = _Exchange(folder, "GET", f"/v1/events?{query}", head=f"Last-Event-ID: {after}\r\n")
        if self._exchange.status >= 400:
            with self._exchange as refusal:
                refusal.read_all()
                raise error_from_json(refusal.content(), refusal.status)

    def poll(self, timeout: float) -> list[Json]:
        """Events that have come, after at most `timeout` seconds. Raises ApiError GONE at the stream's end."""
        until = time.monotonic() + timeout
        while True:
            events = self._cut()
            left = until - time.monotonic()
            if events or not select.select([self._exchange.socket], [], [], max(0, left))[0]:
                return events
            self._exchange.read()

    def close(self) -> None:
        """Stop listening."""
        self._exchange.close()

    def _cut(self) -> list[Json]:
        """Whole events out of the buffer; comments, which keep the line alive, are dropped."""
        *blocks, self._exchange.buffer = self._exchange.buffer.split(b"\n\n")
        events = []
        for block in blocks:
            fields = [line.partition(b": ")[::2] for line in block.split(b"\n") if not line.startswith(b":")]
            data = b"\n".join(value for key, value in fields if key == b"data")
            self.after = max([self.after, *(int(value) for key, value in fields if key == b"id")])
            if data:
                events.append(json.loads(data))
        return events
