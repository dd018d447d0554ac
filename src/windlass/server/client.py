"""The client of the daemon's API: synchronous, small, standard library only.

Every call raises `errors.ApiError`: with the daemon's own words, or NO_DAEMON when nobody listens, or GONE when the
daemon went away before it answered.
"""

from __future__ import annotations

import contextlib
import json
import select
import time
from collections.abc import Sequence
from dataclasses import asdict
from http.client import HTTPConnection, HTTPException, HTTPResponse
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlencode

from windlass.server import socket as unix
from windlass.server.errors import ApiError, Code, from_json

Json = dict[str, Any]
_TIMEOUT = 60.0
"""Seconds that one answer may take. A turn takes milliseconds; a disk that hangs takes longer."""


class _UnixConnection(HTTPConnection):
    def __init__(self, folder: Path) -> None:
        super().__init__("windlass", timeout=_TIMEOUT)
        self._folder = folder

    def connect(self) -> None:
        self.sock = unix.connect(self._folder, _TIMEOUT)


class Client:
    """One keep-alive connection to the daemon of a state folder."""

    kind = "up"
    """What answers: "up" is a daemon, "run" the controller of somebody's foreground job."""
    succeeded = False

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._connection = _UnixConnection(folder)

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

    def why(self, name: str) -> Json:
        """Why a job waits, with counts."""
        return self._get(f"/v1/jobs/{quote(name)}/why")

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
        """End the daemon; its jobs go on under the warden, or are stopped first."""
        return self.call("POST", "/v1/down", {"keep_jobs": keep_jobs})

    def follow(self, name: str, after: int = 0) -> Stream:
        """The events of a job from number `after` on, as they happen."""
        return Stream(self.folder, name, after)

    def call(self, method: str, path: str, body: object = None) -> Json:
        """One request and its answer."""
        raw = None if body is None else json.dumps(body, ensure_ascii=False).encode()
        answer = self._exchange(method, path, raw)
        content = _read_json(answer)
        if answer.status >= 400:
            raise from_json(content, answer.status)
        return content

    def close(self) -> None:
        """Give the connection back."""
        self._connection.close()

    def _get(self, path: str, filters: Json | None = None) -> Json:
        given = {key: value for key, value in (filters or {}).items() if value not in (None, "", [])}
        return self.call("GET", f"{path}?{urlencode(given, doseq=True)}" if given else path)

    def _exchange(self, method: str, path: str, body: bytes | None) -> HTTPResponse:
        """Asking may be done twice, telling may not: only a GET is repeated on a fresh connection."""
        fresh = self._connection.sock is None
        try:
            return _exchange(self._connection, method, path, body)
        except ApiError as error:
            if fresh or error.code is not Code.GONE or method != "GET":
                raise
        return _exchange(self._connection, method, path, body)


def _exchange(connection: HTTPConnection, method: str, path: str, body: bytes | None) -> HTTPResponse:
    if connection.sock is None:
        try:
            connection.connect()
        except OSError as trouble:
            raise no_daemon(trouble) from None
    try:
        connection.request(method, path, body, {"Content-Type": "application/json"} if body else {})
        return connection.getresponse()
    except (OSError, HTTPException) as trouble:
        connection.close()
        raise gone(trouble) from None


def _read_json(answer: HTTPResponse) -> Json:
    try:
        content = json.loads(answer.read())
    except (OSError, HTTPException, ValueError) as trouble:
        answer.close()
        raise gone(trouble) from None
    return content if isinstance(content, dict) else {}


def no_daemon(trouble: OSError) -> ApiError:
    """Nobody listens, or may not be reached."""
    if isinstance(trouble, PermissionError):
        return ApiError(Code.NO_DAEMON, "the daemon's socket belongs to another user", "choose your own with --state")
    return ApiError(Code.NO_DAEMON, "no Windlass daemon is running", "start one with: windlass up -d")


def gone(trouble: Exception) -> ApiError:
    """It was there, and is not any more."""
    if isinstance(trouble, TimeoutError):
        return ApiError(
            Code.GONE, f"the daemon has not answered for {_TIMEOUT:g} s", "see daemon.log in the state folder"
        )
    return ApiError(Code.GONE, "the daemon went away before it answered", "start it again with: windlass up -d")


class Stream:
    """Server-sent events of one job, or of all. `poll` gives what has come; `after` is where to resume.

    It speaks HTTP/1.0, whose body is the bare stream: that can be waited for together with other things.
    """

    def __init__(self, folder: Path, name: str, after: int = 0) -> None:
        self.after = after
        self._buffer = b""
        try:
            self._socket = unix.connect(folder, _TIMEOUT)
        except OSError as trouble:
            raise no_daemon(trouble) from None
        query = urlencode({"job": name}) if name else ""
        try:
            self._socket.sendall(f"GET /v1/events?{query} HTTP/1.0\r\nLast-Event-ID: {after}\r\n\r\n".encode())
            self._read_head()
        except (OSError, ApiError) as trouble:
            self.close()
            raise trouble if isinstance(trouble, ApiError) else gone(trouble) from None

    def fileno(self) -> int:
        """For `select`: readable when `poll(0)` has something."""
        return self._socket.fileno()

    def poll(self, timeout: float) -> list[Json]:
        """Events that have come, after at most `timeout` seconds. Raises ApiError GONE at the stream's end."""
        until = time.monotonic() + timeout
        while True:
            events = self._cut()
            left = until - time.monotonic()
            if events or not select.select([self._socket], [], [], max(0, left))[0]:
                return events
            self._read()

    def close(self) -> None:
        """Stop listening."""
        self._socket.close()

    def _read_head(self) -> None:
        while b"\r\n\r\n" not in self._buffer:
            self._read()
        head, _, self._buffer = self._buffer.partition(b"\r\n\r\n")
        status = int(head.split(None, 2)[1])
        if status >= 400:
            with contextlib.suppress(ApiError):
                while True:
                    self._read()
            raise from_json(json.loads(self._buffer or b"null"), status)

    def _read(self) -> None:
        try:
            came = self._socket.recv(65536)
        except OSError as trouble:
            raise gone(trouble) from None
        if not came:
            raise gone(EOFError())
        self._buffer += came

    def _cut(self) -> list[Json]:
        """Whole events out of the buffer; comments, which keep the line alive, are dropped."""
        *blocks, self._buffer = self._buffer.split(b"\n\n")
        events = []
        for block in blocks:
            fields = [line.partition(b": ")[::2] for line in block.split(b"\n") if not line.startswith(b":")]
            data = b"\n".join(value for key, value in fields if key == b"data")
            self.after = max([self.after, *(int(value) for key, value in fields if key == b"id")])
            if data:
                events.append(json.loads(data))
        return events
