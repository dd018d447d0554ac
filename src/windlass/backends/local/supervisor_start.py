"""Starts a supervisor, or connects to the running one. Imports little: it runs before the rest of Windlass."""

from __future__ import annotations

import errno
import os
import signal
import socket
import struct
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from windlass import wire
from windlass.backends.local.paths import StatePaths, socket_address, state_id
from windlass.backends.port import BackendError
from windlass.core.model.resources import MEMORY, QuantityError, parse_quantity

_PROGRAM = Path(__file__).parent / "supervisor" / "start.py"
_LISTENER = 3
_RESETTABLE = signal.valid_signals() - {signal.SIGKILL, signal.SIGSTOP}
"""Signals that are reset for ranks: a controller's parents may have ignored some (nohup ignores SIGHUP)."""
_CREDENTIALS = struct.Struct("3i")
"""pid, uid and gid of a peer (SO_PEERCRED)."""
_RUN_LINGER_S = "2"

_PART, _PARTS = "WINDLASS_LOG_PART", "WINDLASS_LOG_PARTS"
"""Environment variables for the part of each rank's streams that is kept: bytes of a part, and number of parts."""
_DEFAULT_PART, _DEFAULT_PARTS = "64Mi", "4"


class SupervisorLink(NamedTuple):
    """A connection to a supervisor, which may still be starting.

    `watchdog`: pid of the process started for it; 0 if the supervisor was already running.
    """

    socket: socket.socket
    watchdog: int = 0


def start_supervisor(paths: StatePaths, *, fresh: bool = False) -> SupervisorLink:
    """Connects to the running supervisor of this folder, or starts one; returns at once. The caller holds the lock.

    `fresh` starts a new one in any case: it kills the old one if that does not end by itself. Raises BackendError.
    """
    part_bytes, parts = log_limits(os.environ)
    try:
        living = None if fresh else _connect(paths)
        return SupervisorLink(living) if living is not None else _start(paths, part_bytes, parts)
    except OSError as error:
        raise BackendError(f"cannot start the process supervisor in {paths.root}: {error.strerror}") from error


def log_limits(environment: Mapping[str, str]) -> tuple[int, int]:
    """Returns bytes of a log part, and parts of a stream, from the environment. Raises BackendError."""
    part, parts = environment.get(_PART, _DEFAULT_PART), environment.get(_PARTS, _DEFAULT_PARTS)
    try:
        part_bytes = parse_quantity(MEMORY, part)
    except QuantityError as error:
        raise BackendError(f"{_PART}: {error}") from error
    if not part_bytes:
        raise BackendError(f"{_PART}={part}: a part of a log needs a size, for example {_DEFAULT_PART}")
    if not parts.isdecimal() or not int(parts):
        raise BackendError(f"{_PARTS}={parts}: expected a number from 1, for example {_DEFAULT_PARTS}")
    return part_bytes, int(parts)


def _connect(paths: StatePaths) -> socket.socket | None:
    connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    connection.setblocking(False)
    address, folder = socket_address(paths.supervisor_socket)
    try:
        connection.connect(address)
    except (
        FileNotFoundError,
        ConnectionRefusedError,
        BlockingIOError,
    ):  # BlockingIOError: the listener no longer accepts
        connection.close()
        return None
    finally:
        if folder is not None:
            os.close(folder)
    credentials = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
    if _CREDENTIALS.unpack(credentials)[1] != os.geteuid():
        connection.close()
        raise PermissionError(errno.EPERM, "its socket belongs to another user")
    return connection


def _start(paths: StatePaths, part_bytes: int, parts: int) -> SupervisorLink:
    """Listens on the supervisor's behalf, so that early messages wait for it in the socket."""
    marker = state_id(paths)
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as listener:
        paths.supervisor_socket.unlink(missing_ok=True)
        address, folder = socket_address(paths.supervisor_socket)
        before = os.umask(0o177)
        try:
            listener.bind(address)
        finally:
            os.umask(before)
            if folder is not None:
                os.close(folder)
        listener.listen(8)
        watchdog = _spawn(
            paths, listener.fileno(), [str(paths.root), marker, _RUN_LINGER_S, str(part_bytes), str(parts)]
        )
        connection = _connect(paths)
    assert connection is not None  # noqa: S101 - this process listens
    return SupervisorLink(connection, watchdog)


def _spawn(paths: StatePaths, listener: int, arguments: list[str]) -> int:
    environment = {name: value for name, value in os.environ.items() if name != wire.STATE_ID}
    log = os.open(paths.supervisor_log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
    keep = os.dup(listener) if listener == _LISTENER else listener  # so that dup2 clears close-on-exec
    try:
        return os.posix_spawn(
            sys.executable,
            [sys.executable, "-I", "-S", "-X", "utf8", str(_PROGRAM), *arguments],
            environment,
            file_actions=[
                (os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDWR, 0),
                (os.POSIX_SPAWN_DUP2, 0, 1),
                (os.POSIX_SPAWN_DUP2, log, 2),
                (os.POSIX_SPAWN_DUP2, keep, _LISTENER),
            ],
            setsid=True,
            setsigmask=(),
            setsigdef=_RESETTABLE,
        )
    finally:
        os.close(log)
        if keep != listener:
            os.close(keep)
