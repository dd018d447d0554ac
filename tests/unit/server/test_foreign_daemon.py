"""A socket in the state folder that another user serves: nothing is sent to it."""

from __future__ import annotations

import os
import signal
import socket
from pathlib import Path

import pytest

from other_user import STRANGER, USER, needs_root, run_as, shared_folder, start_as
from windlass.backends.errors import BackendError
from windlass.backends.local import supervisor_start
from windlass.backends.local.paths import StatePaths
from windlass.server.client import Client
from windlass.server.discovery import find_controller
from windlass.server.errors import ApiError, ErrorCode
from windlass.server.unix_socket import NAME

MARKER = "TOKEN-of-the-caller"


def _listen(state: Path, name: str, heard: Path, *, ready) -> None:
    """Accepts connections and writes all that they send."""
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(state / name))
        (state / name).chmod(0o777)
        listener.listen()
        ready()
        while True:
            connection, _ = listener.accept()
            with heard.open("ab") as file:
                file.write(b"connected\n")
                while data := connection.recv(65536):
                    file.write(data)
                    file.flush()
                file.write(b"closed\n")


@pytest.fixture
def stranger(request):
    """`stranger(name, uid)`: a process of this user that listens in a state folder; returns what it has read."""
    with shared_folder() as folder:
        pids = []

        def start(name: str, uid: int) -> Path:
            pids.append(start_as(uid, _listen, folder, name, folder / "heard"))
            return folder / "heard"

        start.state = folder
        yield start
        for pid in pids:
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)


def _submit(state: Path) -> ErrorCode:
    with pytest.raises(ApiError) as refused:
        Client(state).submit([], environment={"TOKEN": MARKER})
    assert "nothing was sent to it" in str(refused.value)
    return refused.value.code


@needs_root
@pytest.mark.parametrize(("client", "daemon"), [(USER, STRANGER), (0, STRANGER), (USER, 0)])
def test_no_request_is_sent_to_the_daemon_of_another_user(stranger, client, daemon):
    heard = stranger(NAME, daemon)
    assert run_as(client, _submit, stranger.state) is ErrorCode.NOT_ALLOWED
    with pytest.raises(ApiError, match=rf"another user \(uid {daemon}\) runs the daemon"):
        run_as(client, find_controller, stranger.state)
    seen = heard.read_bytes() if heard.exists() else b""
    assert MARKER.encode() not in seen
    assert b"HTTP" not in seen


@needs_root
def test_no_command_is_sent_to_the_supervisor_of_another_user(stranger, monkeypatch):
    stranger("supervisor.sock", STRANGER)
    monkeypatch.setattr(supervisor_start, "_start", lambda *_: pytest.fail("a second one is started"))
    with pytest.raises(BackendError, match="its socket belongs to another user"):
        run_as(USER, supervisor_start.start_supervisor, StatePaths(stranger.state))


def test_the_own_daemon_is_served(tmp_path):
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(tmp_path / NAME))
        listener.listen()
        listener.settimeout(10)
        child = os.fork()
        if child == 0:
            connection, _ = listener.accept()
            connection.recv(65536)
            connection.sendall(b'HTTP/1.0 200 OK\r\n\r\n{"kind": "up"}')
            os._exit(0)
        assert Client(tmp_path).ping() == {"kind": "up"}
        os.waitpid(child, 0)
