"""The nursery: imports what ranks need, once, then forks whatever its agent asks for and tells how it ends.

It has one thread, no CUDA context and no process group: what forks must not have. Asked by frames with a "do":
- run      id, argv, how (script, module, exec), env; files: stdout, stderr, where stacks go
- store    id, port; files: a socket that listens on it
- count    id, what; files: where the answer goes
- signal   ids, signal, group (everything in their sessions' first groups, or themselves alone)
Tells: ready (torch: its version, or "" and why), started (id, pid), exit (id, pid, code, negative for a signal; at).
"""

from __future__ import annotations

import contextlib
import gc
import importlib
import os
import selectors
import signal
import socket
import sys
import time
from collections.abc import Iterator
from typing import Any, Callable

from windlass import wire
from windlass.agent.fork_server import child, frames, prctl

_QUIET = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT, signal.SIGUSR1, signal.SIGUSR2)
"""What a terminal or a tired user may send to all of us: the agent alone says what is to end."""
_USUAL = "torch._dynamo"
"""Every optimizer of torch imports it, and it takes longer than torch itself."""
_COUNT_BY_NVML = "PYTORCH_NVML_BASED_CUDA_CHECK"
Life = Callable[[], None]


def main(root: str, descriptor: int) -> None:
    """Serve until the agent is gone. In a forked child: come back here and live, to the interpreter's ordinary end."""
    _forget_agent(root)
    link = socket.socket(fileno=descriptor)
    for number in _QUIET:
        signal.signal(number, signal.SIG_IGN)
    prctl.adopt_orphans()
    frames.send(link, {"tell": "ready", **_import_what_ranks_need()})
    gc.freeze()  # what is here already is never looked at again, so its pages stay shared
    life = _Nursery(link).serve()
    life()


def _forget_agent(root: str) -> None:
    """Let ranks import Windlass from where they would without an agent; code that runs here is loaded by now."""
    with contextlib.suppress(ValueError):
        sys.path.remove(root)
    if sys.path[:1] == [""]:
        del sys.path[0]
    for name in [name for name in sys.modules if name.partition(".")[0] == "windlass"]:
        del sys.modules[name]


def _import_what_ranks_need() -> dict[str, str]:
    with _no_driver():
        try:
            torch = importlib.import_module("torch")
            importlib.import_module("torch.distributed")
        except ImportError as wrong:
            return {"torch": "", "why": str(wrong)}
        for name in os.environ.get(wire.PRELOAD, _USUAL).split(","):
            if name.strip():
                try:
                    importlib.import_module(name.strip())
                except Exception as wrong:  # noqa: BLE001 - a rank that needs it will say so itself
                    return {"torch": torch.__version__, "why": f"{wire.PRELOAD}: {name.strip()}: {wrong}"}
        return {"torch": torch.__version__, "why": ""}


@contextlib.contextmanager
def _no_driver() -> Iterator[None]:
    """Have torch count GPUs without waking up CUDA's driver, which does not survive a fork."""
    before = os.environ.get(_COUNT_BY_NVML)
    os.environ[_COUNT_BY_NVML] = "1"
    yield
    if before is None:
        del os.environ[_COUNT_BY_NVML]
    else:
        os.environ[_COUNT_BY_NVML] = before


class _Nursery:
    def __init__(self, link: socket.socket) -> None:
        self._link = link
        self._ids: dict[int, int] = {}
        self._pids: dict[int, int] = {}
        self._wake, self._woken = os.pipe()
        os.set_blocking(self._wake, False)
        os.set_blocking(self._woken, False)

    def serve(self) -> Life:
        signal.signal(signal.SIGCHLD, lambda _number, _frame: None)  # without a handler no byte is written
        signal.set_wakeup_fd(self._woken, warn_on_full_buffer=False)
        with selectors.DefaultSelector() as ready:
            ready.register(self._wake, selectors.EVENT_READ)
            ready.register(self._link, selectors.EVENT_READ)
            while True:
                for key, _ in ready.select():
                    if key.fd == self._wake:
                        self._reap()
                    elif (life := self._hear()) is not None:
                        return life

    def _hear(self) -> Life | None:
        frame = frames.receive(self._link)
        if frame is None:
            self._end()
        elif frame.message["do"] == "signal":
            for number in frame.message["ids"]:
                self._signal(number, frame.message["signal"], group=frame.message["group"])
        else:
            return self._fork(frame)
        return None

    def _fork(self, frame: frames.Frame) -> Life | None:
        parent, number = os.getpid(), frame.message["id"]
        signal.pthread_sigmask(signal.SIG_BLOCK, _QUIET)  # what is sent before the child listens waits for it
        pid = os.fork()
        if pid == 0:
            self._link.close()
            child.separate(parent, (*_QUIET, signal.SIGCHLD))
            os.close(self._wake)
            os.close(self._woken)
            return lambda: child.live(frame.message, frame.files)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, _QUIET)
        for descriptor in frame.files:
            os.close(descriptor)
        self._ids[pid], self._pids[number] = number, pid
        self._tell({"tell": "started", "id": number, "pid": pid})
        return None

    def _reap(self) -> None:
        with contextlib.suppress(BlockingIOError):
            while os.read(self._wake, 4096):
                pass
        with contextlib.suppress(ChildProcessError):
            while (ended := os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)) is not None:
                self._bury(ended.si_pid)

    def _bury(self, pid: int) -> None:
        """What a rank leaves in its group ends with it; its number is still taken, so nobody else can be meant."""
        number = self._ids.pop(pid, None)
        if number is not None:
            _kill_group(pid)
        _, status = os.waitpid(pid, 0)
        if number is not None:
            del self._pids[number]
            code = os.waitstatus_to_exitcode(status)
            self._tell({"tell": "exit", "id": number, "pid": pid, "code": code, "at": time.monotonic()})

    def _signal(self, number: int, what: int, *, group: bool) -> None:
        pid = self._pids.get(number)
        if pid is None or (group and _kill_group(pid, what)):  # never both: a rank is to be asked once
            return
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, what)

    def _tell(self, message: dict[str, Any]) -> None:
        try:
            frames.send(self._link, message)
        except OSError:
            self._end()

    def _end(self) -> None:
        """The agent is gone: so is everything that was started for it."""
        for pid in self._ids:
            os.kill(pid, signal.SIGKILL)
            _kill_group(pid)
        os._exit(1)


def _kill_group(pid: int, what: int = signal.SIGKILL) -> bool:
    """Whether there is such a group: a child makes its own first of all, and may not have come to that."""
    try:
        os.killpg(pid, what)
    except (ProcessLookupError, PermissionError):
        return False
    return True
