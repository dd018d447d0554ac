"""The end of a client of a cluster that no one closes."""

from __future__ import annotations

import contextlib
import gc
import threading
import weakref
from pathlib import Path

import pytest

import windlass
from windlass.backends.kubernetes.client.api_errors import ApiError as Refusal
from windlass.backends.kubernetes.client.identity import constant_access
from windlass.cli.kubernetes.api_session import ApiSession
from windlass.client import connection as client_connection
from windlass.client.connection import TargetConnection
from windlass.server.errors import ApiError


class Session:
    """A client of a cluster that notes the thread of its end."""

    ended_in: str = ""

    def close(self) -> None:
        Session.ended_in = threading.current_thread().name


@pytest.fixture
def target(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> TargetConnection:
    monkeypatch.setenv("KUBECONFIG", str(tmp_path / "none"))
    return TargetConnection("kubernetes", "", tmp_path)


def fail(connection: TargetConnection) -> None:
    connection._cluster.append(Session())  # type: ignore[arg-type]
    raise windlass.NoSuchJobError("there is no job")


class Held:
    """An object that a failed call has used."""


async def refuse(_held: Held) -> None:
    raise Refusal(404, "NotFound", "not found")


def test_an_error_of_a_call_keeps_nothing_alive():
    session, held = ApiSession(constant_access("http://127.0.0.1:1")), Held()
    known = weakref.ref(held)
    gc.disable()  # what a cycle holds would live until a collection
    try:
        with contextlib.suppress(ApiError):
            session.run(refuse(held))
        del held
        assert known() is None
    finally:
        gc.enable()
        session.close()


def test_sessions_end_in_the_thread_of_their_client(target: TargetConnection):
    with pytest.raises(windlass.NoSuchJobError):
        target.start(fail).result()
    target.close()
    assert Session.ended_in.startswith("windlass-client")


def test_sessions_end_at_the_end_of_the_process_when_the_threads_have_ended(target: TargetConnection):
    Session.ended_in = ""
    target._threads.shutdown()
    client_connection._close_in_thread(target._threads, [Session()])  # type: ignore[list-item]
    assert Session.ended_in == threading.current_thread().name
