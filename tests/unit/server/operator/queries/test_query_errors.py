"""Answers to queries that fail: the reason is in the log of the operator, and not in the answer."""

from __future__ import annotations

import asyncio
import json
from types import SimpleNamespace
from typing import Any

import pytest

from windlass.backends.kubernetes.client.reviews import User
from windlass.backends.port import BackendError
from windlass.jobs.kubernetes.query_api import PREFIX
from windlass.server.operator.history.databases import HistoryError
from windlass.server.operator.queries.app import QueryServer


class Gate:
    """Authentication, rights and queries of a cluster. `faults`: the error that each of them raises, by name."""

    def __init__(self, faults: dict[str, Exception]) -> None:
        self.faults = faults

    def _check(self, part: str) -> None:
        if part in self.faults:
            raise self.faults[part]

    async def identify(self, _scope: Any) -> User:
        self._check("identity")
        return User("ann")

    async def require(self, *_: Any) -> None:
        self._check("right")

    async def listing(self, *_: Any) -> dict[str, Any]:
        self._check("query")
        return {"jobs": []}


async def ask(application: Any, path: str) -> tuple[int, Any]:
    """Status and body of an answer."""
    sent: list[Any] = []

    async def receive() -> dict[str, Any]:
        return {"type": "http.request", "body": b"", "more_body": False}

    async def send(message: Any) -> None:
        sent.append(message)

    scope = {"type": "http", "method": "GET", "path": path, "query_string": b"", "headers": []}
    await application(scope, receive, send)
    return sent[0]["status"], json.loads(b"".join(each.get("body", b"") for each in sent[1:]))


@pytest.mark.parametrize(
    ("part", "error"),
    [
        ("identity", BackendError("cannot reach https://10.1.2.3:6443: Connection refused")),
        ("right", BackendError("cannot reach https://10.1.2.3:6443: Connection refused")),
        ("query", HistoryError("history in postgresql://windlass@db.internal/windlass: no answer")),
    ],
)
def test_the_text_of_an_error_is_for_the_log_alone(part: str, error: BackendError) -> None:
    gate: Any = Gate({part: error})
    log: list[str] = []
    leading: Any = SimpleNamespace(listing=gate.listing)
    server = QueryServer(gate, gate, lambda: leading, lambda: "", lambda: b"", log.append)

    status, answer = asyncio.run(ask(server.application(), f"{PREFIX}/namespaces/team-a/history"))

    assert status == 500
    assert answer["error"] == {
        "code": "internal",
        "message": "the API server or the database of history does not answer; the operator's log has the reason",
        "fix": "try again in a minute",
    }
    assert log == [f"a query cannot be answered: {error}"]
