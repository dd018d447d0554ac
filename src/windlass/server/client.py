"""The client of the daemon's API: synchronous, small, standard library only.

It speaks HTTP/1.0 with one connection for each request. On a unix socket that costs less than the import of
`http.client`, the body is all bytes up to the end, and no kept connection can go stale.

Every call raises `errors.ApiError`: the daemon's own error, NO_DAEMON if no process listens, or GONE if the daemon
ended before it answered.
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
from windlass.server.errors import NO_DAEMON, START_DAEMON, ApiError, ErrorCode, error_from_json

Json = dict[str, Any]
_TIMEOUT_S = 60.0
"""Seconds for one answer. A turn takes milliseconds; a slow disk may take longer."""


class Client:
    """Client of the daemon of a state folder."""

    succeeded = False

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.facts: Json = {}
        """Answer to the first ping."""

    @property
    def kind(self) -> str:
        """Kind of the controller: "up" for a daemon, "run" for a `windlass run` in the foreground."""
        return str(self.facts["kind"])

    def ping(self) -> Json:
        """Version, pid, kind ("up" or "run") and a description of the cluster."""
        return self._get("/v1/ping")

    def submit(self, submissions: Sequence[Any], **facts: Any) -> list[str]:
        """Submits jobs, all or none. Returns their ids in order, one for an array."""
        body = {"submissions": [asdict(submission) for submission in submissions], **facts}
        return list(self.call("POST", "/v1/jobs", body)["ids"])

    def jobs(self, **filters: Any) -> list[Json]:
        """Jobs as lines of a listing, the next to start first."""
        return list(self._get("/v1/jobs", filters)["jobs"])

    def job(self, name: str) -> Json:
        """All details of a job."""
        return self._get(f"/v1/jobs/{quote(name)}")

    def explain(self, name: str, what_if: str = "") -> Json:
        """Reason why a job is pending, with counts. `what_if`: the same with other options of the job."""
        return self._get(f"/v1/jobs/{quote(name)}/why", {"what_if": what_if})

    def metrics(self, name: str, **filters: Any) -> Json:
        """Stored telemetry of a job. Filters: since, until (ms), points, statistic."""
        return self._get(f"/v1/jobs/{quote(name)}/metrics", filters)

    def explain_all(self) -> Json:
        """All pending jobs with their reasons."""
        return self._get("/v1/why")

    def shares(self) -> Json:
        """Fair share and usage of every queue."""
        return self._get("/v1/shares")

    def snapshot(self, *, planned: bool = False) -> Json:
        """The scheduler's input, now or (`planned`) at its last plan."""
        return self._get("/v1/snapshot", {"planned": "1"} if planned else None)

    def schedules(self) -> list[Json]:
        """Schedules, by name."""
        return list(self._get("/v1/schedules")["schedules"])

    def run_schedule(self, name: str) -> list[str]:
        """Starts a run of a schedule at once. Returns its id."""
        return list(self.call("POST", f"/v1/schedules/{quote(name)}/run")["ids"])

    def reservations(self) -> list[Json]:
        """Reservations, the soonest first."""
        return list(self._get("/v1/reservations")["reservations"])

    def reserve(self, **request: Any) -> Json:
        """Reserves nodes; see `reservation_request.ReservationRequest`."""
        return self.call("POST", "/v1/reservations", request)

    def unreserve(self, name: str) -> Json:
        """Deletes a reservation."""
        return self.call("DELETE", f"/v1/reservations/{quote(name)}")

    def act_on_all(self, verb: str, names: Sequence[str], **how: Any) -> Json:
        """Cancels, suspends or resumes several jobs. Returns the changed `jobs` and `errors` for the others."""
        return self.call("POST", f"/v1/{verb}", {"jobs": list(names), **how})

    def act(self, verb: str, name: str, **how: Any) -> Json:
        """Cancels, suspends or resumes a job (or a whole array)."""
        return self.call("POST", f"/v1/jobs/{quote(name)}/{verb}", how)

    def update(self, name: str, **changes: int) -> Json:
        """Changes `priority`, `walltime` (ms, 0 for none) or `begin` (ms since the epoch, 0 for at once) of a job."""
        return self.call("POST", f"/v1/jobs/{quote(name)}/update", changes)

    def nodes(self) -> list[Json]:
        """Nodes and the jobs on them."""
        return list(self._get("/v1/nodes")["nodes"])

    def queues(self) -> list[Json]:
        """Queues with quota and usage."""
        return list(self._get("/v1/queues")["queues"])

    def history(self, **filters: Any) -> list[Json]:
        """Ended jobs, the latest first."""
        return list(self._get("/v1/history", filters)["jobs"])

    def open_dashboard(self, *, port: int | None, may_act: bool) -> str:
        """Address of a new one-time link to the dashboard."""
        return str(self.call("POST", "/v1/ui", {"port": port, "may_act": may_act})["url"])

    def down(self, *, keep_jobs: bool) -> Json:
        """Ends the daemon. Its jobs go on under the process supervisor, or are stopped first."""
        return self.call("POST", "/v1/down", {"keep_jobs": keep_jobs})

    def follow(self, name: str, after: int = 0) -> ApiEventStream:
        """The events of a job from number `after` on, as they happen."""
        return ApiEventStream(self.folder, name, after)

    def call(self, method: str, path: str, body: object = None) -> Json:
        """Sends one request and returns its answer."""
        raw = b"" if body is None else json.dumps(body, ensure_ascii=False).encode()
        with _Exchange(self.folder, method, path, raw) as exchange:
            exchange.read_all()
            content = exchange.content()
        if exchange.status >= 400:
            raise error_from_json(content, exchange.status)
        return content

    def close(self) -> None:
        """Does nothing: no connection is open between requests."""

    def _get(self, path: str, filters: Json | None = None) -> Json:
        values = {key: value for key, value in (filters or {}).items() if value not in (None, "", [])}
        return self.call("GET", f"{path}?{urlencode(values, doseq=True)}" if values else path)


class _Exchange:
    """A sent request and the received part of its answer."""

    def __init__(self, folder: Path, method: str, path: str, body: bytes = b"", head: str = "") -> None:
        self.status = 0
        self.buffer = b""
        try:
            self.socket = unix.connect(folder, _TIMEOUT_S)
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
        """Receives at least one byte. Raises ApiError GONE at the end of the stream."""
        try:
            came = self.socket.recv(65536)
        except OSError as trouble:
            raise gone_error(trouble) from None
        if not came:
            raise gone_error(EOFError())
        self.buffer += came

    def read_all(self) -> None:
        """Receives the whole answer."""
        parts = [self.buffer]
        try:
            while part := self.socket.recv(65536):
                parts.append(part)
        except OSError as trouble:
            raise gone_error(trouble) from None
        self.buffer = b"".join(parts)

    def content(self) -> Json:
        """The answer as JSON. Raises ApiError GONE if it is incomplete."""
        try:
            content = json.loads(self.buffer)
        except ValueError as trouble:
            raise gone_error(trouble) from None
        return content if isinstance(content, dict) else {}


def no_daemon_error(trouble: OSError) -> ApiError:
    """The error for a failed connection: no daemon, no permission, or the daemon of another user."""
    if isinstance(trouble, unix.StrangerError):
        message = f"another user (uid {trouble.uid}) runs the daemon of this state folder; nothing was sent to it"
        return ApiError(ErrorCode.NOT_ALLOWED, message, "name your own state folder with --state")
    if isinstance(trouble, PermissionError):
        return ApiError(ErrorCode.NOT_ALLOWED, "the state folder belongs to another user", "name your own with --state")
    return ApiError(ErrorCode.NO_DAEMON, NO_DAEMON, START_DAEMON)


def gone_error(trouble: Exception) -> ApiError:
    """The error for a connection that broke or timed out."""
    if isinstance(trouble, TimeoutError):
        return ApiError(
            ErrorCode.GONE, f"the daemon has not answered for {_TIMEOUT_S:g} s", "see daemon.log in the state folder"
        )
    return ApiError(ErrorCode.GONE, "the daemon ended before it answered", "start it again with: windlass up -d")


class ApiEventStream:
    """Stream of server-sent events of some jobs, or of all. `after`: number of the last event received."""

    def __init__(self, folder: Path, names: str, after: int = 0) -> None:
        self.after = after
        query = urlencode({"job": names}) if names else ""
        self._exchange = _Exchange(folder, "GET", f"/v1/events?{query}", head=f"Last-Event-ID: {after}\r\n")
        if self._exchange.status >= 400:
            with self._exchange as refusal:
                refusal.read_all()
                raise error_from_json(refusal.content(), refusal.status)

    def poll(self, timeout: float) -> list[Json]:
        """Events that have arrived, after at most `timeout` seconds. Raises ApiError GONE at the stream's end."""
        until = time.monotonic() + timeout
        while True:
            events = self._take_events()
            left = until - time.monotonic()
            if events or not select.select([self._exchange.socket], [], [], max(0, left))[0]:
                return events
            self._exchange.read()

    def close(self) -> None:
        """Closes the stream."""
        self._exchange.close()

    def _take_events(self) -> list[Json]:
        """Takes complete events out of the buffer and drops comments, which only keep the connection alive."""
        *blocks, self._exchange.buffer = self._exchange.buffer.split(b"\n\n")
        events = []
        for block in blocks:
            fields = [line.partition(b": ")[::2] for line in block.split(b"\n") if not line.startswith(b":")]
            data = b"\n".join(value for key, value in fields if key == b"data")
            self.after = max([self.after, *(int(value) for key, value in fields if key == b"id")])
            if data:
                events.append(json.loads(data))
        return events
