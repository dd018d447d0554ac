"""Starts the supervisor, and is its watchdog: waits for the supervisor's end and cleans up after it.

The controller has bound the socket and listens on it already (descriptor 3). Messages that it sends before this program
runs wait in the socket.
"""

from __future__ import annotations

import fcntl
import os
import signal
import socket
import sys
import time

from . import kernel, proc, process_cleanup
from .log_files import LogLimits
from .supervisor import Supervisor

_LISTENER = 3
_CLEANUP_TIMEOUT_S = 5.0
"""Seconds that an earlier watchdog and supervisor may take to clean up before they are killed."""


def main() -> None:
    """Runs the watchdog. Arguments: state folder, state id, linger in s, bytes of a log part, parts of a stream."""
    state, state_id, linger, part_bytes, parts = sys.argv[1:]
    os.umask(0o077)
    os.closerange(_LISTENER + 1, os.sysconf("SC_OPEN_MAX"))  # descriptors that the controller's own parents left open
    # 1. every process of an earlier supervisor ends before one of ours starts
    lock = _acquire_lock(f"{state}/supervisor.lock")
    process_cleanup.kill_marked(b"WINDLASS_STATE_ID=" + os.fsencode(state_id))
    # 2. the watchdog stays, the supervisor is its child
    kernel.adopt_orphans()
    lifeline, held_by_watchdog = os.pipe2(os.O_CLOEXEC)
    watchdog = os.getpid()
    supervisor = os.fork()
    if supervisor == 0:
        os.close(held_by_watchdog)
        _write_holders(lock, watchdog, os.getpid())
        _run_supervisor(f"{state}/supervisor.sock", lifeline, float(linger), LogLimits(int(part_bytes), int(parts)))
        return
    # 3. the watchdog kills the processes of a supervisor that was killed
    os.close(_LISTENER)
    while os.waitpid(-1, 0)[0] != supervisor:
        pass
    process_cleanup.kill_descendants()


def _run_supervisor(path: str, lifeline: int, linger: float, limits: LogLimits) -> None:
    kernel.adopt_orphans()
    own = os.stat(path).st_ino
    listener = socket.socket(fileno=_LISTENER)
    os.set_inheritable(_LISTENER, False)
    Supervisor(listener, lifeline, linger, limits).run()
    try:
        if os.stat(path).st_ino == own:
            os.unlink(path)
    except FileNotFoundError:
        pass


def _acquire_lock(path: str) -> int:
    """Takes the lock that an earlier watchdog or supervisor holds while either lives. Never releases it."""
    lock = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    until = time.monotonic() + _CLEANUP_TIMEOUT_S
    while True:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if time.monotonic() > until:
                _kill_holders(lock)
            time.sleep(0.005)
        else:
            return lock


def _write_holders(lock: int, *pids: int) -> None:
    """Writes the holders of the lock: pid and start, which identify a process uniquely."""
    started = [(pid, seen.started) for pid in pids if (seen := proc.stat(pid))]
    text = " ".join(f"{pid}:{since}" for pid, since in started).encode()
    os.pwrite(lock, text, 0)
    os.ftruncate(lock, len(text))


def _kill_holders(lock: int) -> None:
    for entry in os.pread(lock, 256, 0).decode().split():
        pid, since = map(int, entry.split(":"))
        if proc.is_alive(pid, since):
            process_cleanup.kill([pid], signal.SIGKILL)
