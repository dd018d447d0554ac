"""Server of `torch_forks`: imports torch and what ranks import sooner or later, and forks a process for each request.

A request is one message with descriptors. The answers are the pid and, at its end, the exit code of the process. The
process is killed when the connection is closed. A request without descriptors asks for no process: it is that of a
worker of the tests, and the server ends when all of these connections are closed.
"""

from __future__ import annotations

import contextlib
import fcntl
import functools
import gc
import os
import pickle
import runpy
import selectors
import shutil
import signal
import socket
import sys
import tempfile
import threading
import types
from collections.abc import Callable, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

import forked_python

_PRELOAD = (
    "torch",
    "torch._dynamo",
    "torch.distributed.checkpoint",
    "torch.distributed.fsdp",
    "torch.distributed.pipelining",
    "torch.distributed.tensor.parallel",
    "torch.profiler._cupti_monitor",
    "torch.utils.serialization",
    "numpy.ma",
    "sklearn.datasets",
    "windlass.train.start",
    "windlass.train.checkpoint.store.folder_storage",
)
_MAX_FILES = 100
CALL_FILE = 1000
"""Number of the descriptor that a function is called with."""
Main = Callable[[], None]


def _serve(address: str) -> Main:
    """Serves until all workers are gone. In a forked child: returns its main function."""
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    listener.bind(address)
    listener.listen(64)
    os.write(1, b"listens\n")
    os.dup2(2, 1)
    with selectors.DefaultSelector() as waiting:
        waiting.register(listener, selectors.EVENT_READ)
        server = _Server(listener, waiting)
        while (main := server.handle(waiting.select()[0][0])) is None:
            pass
    return main


class _Server:
    def __init__(self, listener: socket.socket, waiting: selectors.BaseSelector) -> None:
        self._listener, self._waiting = listener, waiting
        self._pids: dict[socket.socket, int] = {}
        """Process of each connection, until it is reaped; 0 for a worker of the tests."""

    def handle(self, key: selectors.SelectorKey) -> Main | None:
        """Handles a new connection, a closed one, or the end of a process. Returns the main function of a new one."""
        if key.fileobj is self._listener:
            return self._accept()
        if isinstance(key.fileobj, int):
            self._report_end(key.fileobj, key.data)
        else:
            self._close(key.data)
        return None

    def _accept(self) -> Main | None:
        link, _ = self._listener.accept()
        data, files, _, _ = socket.recv_fds(link, forked_python.MAX_REQUEST_BYTES, _MAX_FILES)
        if not data:
            link.close()
            return None
        pid = os.fork() if files else 0
        if files and pid == 0:
            link.close()
            self._close_all()
            return functools.partial(_become, pickle.loads(data), files)  # noqa: S301 - from a test of the same user
        for file in files:
            os.close(file)
        self._pids[link] = pid
        self._waiting.register(link, selectors.EVENT_READ, link)
        if pid:
            self._waiting.register(os.pidfd_open(pid), selectors.EVENT_READ, link)
        with contextlib.suppress(OSError):
            link.send(b"%d" % pid)
        return None

    def _close_all(self) -> None:
        for key in list(self._waiting.get_map().values()):
            if isinstance(key.fileobj, int):
                os.close(key.fileobj)
            else:
                key.fileobj.close()  # type: ignore[attr-defined]

    def _report_end(self, pidfd: int, link: socket.socket) -> None:
        self._waiting.unregister(pidfd)
        os.close(pidfd)
        _, status = os.waitpid(self._pids.pop(link), 0)
        if link.fileno() >= 0:
            self._waiting.unregister(link)
            with contextlib.suppress(OSError):
                link.send(b"%d" % os.waitstatus_to_exitcode(status))
            link.close()

    def _close(self, link: socket.socket) -> None:
        self._waiting.unregister(link)
        link.close()
        if pid := self._pids[link]:
            os.kill(pid, signal.SIGKILL)
            return
        del self._pids[link]
        if 0 not in self._pids.values():
            for left in self._pids.values():
                os.kill(left, signal.SIGKILL)
            shutil.rmtree(Path(self._listener.getsockname()).parent, ignore_errors=True)
            os._exit(0)


def _become(request: dict[str, Any], files: Sequence[int]) -> None:
    """Becomes the process of a request."""
    os.setsid()
    _move_files(files, request["files"])
    os.chdir(request["cwd"])
    os.environ.clear()
    os.environ.update(request["env"])
    tempfile.tempdir = None
    if "call" in request:
        sys.path[:] = request["path"]
        function, given = pickle.loads(request["call"])  # noqa: S301 - from a test of the same user
        function(CALL_FILE, *given)
        threading._shutdown()  # type: ignore[attr-defined]
        sys.stdout.flush()
        os._exit(0)
    _run_program(*request["argv"])


def _move_files(files: Sequence[int], numbers: Sequence[int]) -> None:
    copies = [fcntl.fcntl(file, fcntl.F_DUPFD, CALL_FILE + 1) for file in files]
    for file in files:
        os.close(file)
    for copy, number in zip(copies, numbers, strict=True):
        os.dup2(copy, number)
        os.close(copy)


def _run_program(*argv: str) -> None:
    """Runs code or a script as Python does. Modules of Windlass are imported again, in the process that runs them."""
    words = list(argv[argv[0] == "-u" :])
    for name in [name for name in sys.modules if name.partition(".")[0] == "windlass"]:
        del sys.modules[name]
    sys.path[:] = [*filter(None, os.environ.get("PYTHONPATH", "").split(os.pathsep)), *sys.path]
    if words[0] != "-c":
        sys.path.insert(0, str(Path(words[0]).parent))
        sys.argv[:] = words
        runpy.run_path(words[0], run_name="__main__")
        return
    _, code, *arguments = words
    sys.path.insert(0, "")
    sys.argv[:] = ["-c", *arguments]
    main = sys.modules["__main__"] = types.ModuleType("__main__")
    exec(compile(code, "<string>", "exec"), main.__dict__)  # noqa: S102 - what `python -c` does


if __name__ == "__main__":
    sys.path[:] = [each for each in sys.path if Path(each) != Path(__file__).parent]
    gc.disable()  # while modules are imported, collections find little and take half of the time
    for module in _PRELOAD:
        import_module(module)
    gc.freeze()  # a full collection of all that torch has imported takes 0.3 s
    gc.enable()
    _serve(sys.argv[1])()
