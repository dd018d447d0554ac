"""The fork server's process: imports the modules that ranks need, forks children on request, reports their ends.

It has a single thread, and never creates a CUDA context or a torch process group, because these do not survive a fork.
Requests are frames with a "request":
- run      id, argv, how (script, module, exec), env; file descriptors: stdout, stderr, the file for stacks
- store    id, port; file descriptors: a socket that listens on it
- count    id, option (how many ranks `--nproc-per-node` means); file descriptors: the pipe for the answer
- signal   ids, signal, group (their process groups, or the processes alone)
Events are frames with an "event": ready (torch: its version, or "" with a reason), started (id, pid), exit (id, pid,
code, negative for a signal; at).
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
from windlass.agent.fork_server import child, frames, orphans, prctl
from windlass.agent.fork_server.thread_pool import ThreadPool

_IGNORED = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT, signal.SIGUSR1, signal.SIGUSR2)
"""Signals that a terminal or a user may send to all processes: only the agent decides which of them end."""
_DEFAULT_PRELOAD = "torch._dynamo"
"""Every optimizer of torch imports it, and its import takes longer than torch's own."""
_COUNT_BY_NVML = "PYTORCH_NVML_BASED_CUDA_CHECK"
_ORPHANS_TIMEOUT_S, _END_TIMEOUT_S = 10.0, 1.0
"""Seconds for orphans to end before a generation begins (a GPU's memory is slow to free), and as this process ends."""
ChildMain = Callable[[], None]


def main(root: str, descriptor: int) -> None:
    """Serves until the agent is gone. In a forked child: returns here, and runs the child to the interpreter's end."""
    _hide_agent(root)
    link = socket.socket(fileno=descriptor)
    for signum in _IGNORED:
        signal.signal(signum, signal.SIG_IGN)
    prctl.adopt_orphans()
    gc.disable()  # while torch is imported, collections find little and take a quarter of the time
    thread_pool = ThreadPool()
    frames.send(link, {"event": "ready", **_preload(thread_pool)})
    gc.freeze()  # the collector skips all objects so far, so their pages stay shared
    gc.enable()
    child_main = _ForkServer(link).serve()
    thread_pool.renew()
    child_main()


def _hide_agent(root: str) -> None:
    """Lets ranks import Windlass from the same place as without an agent; this process has loaded its code already."""
    with contextlib.suppress(ValueError):
        sys.path.remove(root)
    if sys.path[:1] == [""]:
        del sys.path[0]
    for name in [name for name in sys.modules if name.partition(".")[0] == "windlass"]:
        del sys.modules[name]


def _preload(thread_pool: ThreadPool) -> dict[str, str]:
    with _no_cuda_driver(), contextlib.ExitStack() as watches:
        try:
            torch = importlib.import_module("torch")
            importlib.import_module("torch.distributed")
        except ImportError as error:
            return {"torch": "", "reason": str(error)}
        watches.enter_context(thread_pool.watch(torch))
        for name in os.environ.get(wire.PRELOAD, _DEFAULT_PRELOAD).split(","):
            if name.strip():
                try:
                    importlib.import_module(name.strip())
                except Exception as error:  # noqa: BLE001 - a rank that needs it reports the error itself
                    return {"torch": torch.__version__, "reason": f"{wire.PRELOAD}: {name.strip()}: {error}"}
        return {"torch": torch.__version__, "reason": ""}


@contextlib.contextmanager
def _no_cuda_driver() -> Iterator[None]:
    """Makes torch count GPUs without initializing CUDA's driver, which does not survive a fork."""
    before = os.environ.get(_COUNT_BY_NVML)
    os.environ[_COUNT_BY_NVML] = "1"
    yield
    if before is None:
        del os.environ[_COUNT_BY_NVML]
    else:
        os.environ[_COUNT_BY_NVML] = before


class _ForkServer:
    """The loop of the fork server: takes requests, forks children, reaps them. Process ids are given by the agent."""

    def __init__(self, link: socket.socket) -> None:
        self._link = link
        self._ids: dict[int, int] = {}
        """pid → process id."""
        self._pids: dict[int, int] = {}
        """Process id → pid."""
        self._ranks: set[int] = set()
        """Pids of the ranks that have not ended."""
        self._has_had_ranks = False
        self._wake, self._woken = os.pipe()
        os.set_blocking(self._wake, False)
        os.set_blocking(self._woken, False)

    def serve(self) -> ChildMain:
        signal.signal(signal.SIGCHLD, lambda _signum, _frame: None)  # without a handler Python writes no byte
        signal.set_wakeup_fd(self._woken, warn_on_full_buffer=False)
        with selectors.DefaultSelector() as ready:
            ready.register(self._wake, selectors.EVENT_READ)
            ready.register(self._link, selectors.EVENT_READ)
            while True:
                for key, _ in ready.select():
                    if key.fd == self._wake:
                        self._reap_all()
                    elif (child_main := self._take_request()) is not None:
                        return child_main

    def _take_request(self) -> ChildMain | None:
        frame = frames.receive(self._link)
        if frame is None:
            self._end()
        elif frame.message["request"] == "signal":
            for process_id in frame.message["ids"]:
                self._send_signal(process_id, frame.message["signal"], group=frame.message["group"])
        else:
            return self._fork(frame)
        return None

    def _fork(self, frame: frames.Frame) -> ChildMain | None:
        parent, process_id = os.getpid(), frame.message["id"]
        is_rank = frame.message["request"] == "run"
        if is_rank and self._has_had_ranks and not self._ranks:  # a generation begins
            orphans.kill_orphans(self._ids, _ORPHANS_TIMEOUT_S)
        signal.pthread_sigmask(signal.SIG_BLOCK, _IGNORED)  # signals wait until the child has handlers
        pid = os.fork()
        if pid == 0:
            self._link.close()
            child.separate(parent, (*_IGNORED, signal.SIGCHLD))
            os.close(self._wake)
            os.close(self._woken)
            return lambda: child.serve_request(frame.message, frame.files)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, _IGNORED)
        for descriptor in frame.files:
            os.close(descriptor)
        self._ids[pid], self._pids[process_id] = process_id, pid
        if is_rank:
            self._ranks.add(pid)
            self._has_had_ranks = True
        self._send({"event": "started", "id": process_id, "pid": pid})
        return None

    def _reap_all(self) -> None:
        with contextlib.suppress(BlockingIOError):
            while os.read(self._wake, 4096):
                pass
        with contextlib.suppress(ChildProcessError):
            while (ended := os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)) is not None:
                self._reap(ended.si_pid)

    def _reap(self, pid: int) -> None:
        """Reaps a child and kills the rest of its group before that, while its pid cannot be another process'."""
        process_id = self._ids.pop(pid, None)
        if process_id is not None:
            _kill_group(pid)
        _, status = os.waitpid(pid, 0)
        if process_id is not None:
            del self._pids[process_id]
            self._ranks.discard(pid)
            code = os.waitstatus_to_exitcode(status)
            self._send({"event": "exit", "id": process_id, "pid": pid, "code": code, "at": time.monotonic()})

    def _send_signal(self, process_id: int, signum: int, *, group: bool) -> None:
        pid = self._pids.get(process_id)
        if pid is None or (group and _kill_group(pid, signum)):  # never both: a rank gets each signal once
            return
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signum)

    def _send(self, message: dict[str, Any]) -> None:
        try:
            frames.send(self._link, message)
        except OSError:
            self._end()

    def _end(self) -> None:
        """Kills everything that was started for the agent, which is gone, and exits."""
        for pid in self._ids:
            os.kill(pid, signal.SIGKILL)
            _kill_group(pid)
        if self._ranks:
            orphans.kill_orphans((), _END_TIMEOUT_S)
        os._exit(1)


def _kill_group(pid: int, signum: int = signal.SIGKILL) -> bool:
    """Signals a process group. Returns whether it exists: a child creates its own at its start, maybe not yet."""
    try:
        os.killpg(pid, signum)
    except (ProcessLookupError, PermissionError):
        return False
    return True
