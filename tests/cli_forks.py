"""Runs `windlass` in processes forked from one that has imported it: the import takes most of the time of a verb.

Each verb has a process of its own, with its own arguments, environment, folder and pipes, and runs the entry point of
the program. Tests of terminals, signals and imports start the program itself.
"""

from __future__ import annotations

import functools
import json
import os
import selectors
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from importlib import import_module
from pathlib import Path

_IMPORTED = (
    "windlass.server.records_client",
    "windlass.server.client",
    "windlass.backends.local.backend",
    "windlass.server.daemon",
    "windlass.server.embedded_controller",
    "windlass.server.local_server",
    "windlass.cli.kubernetes.client",
)
"""Modules that most verbs import when they run, besides the modules of all verbs."""
_MAX_REQUEST_BYTES = 1 << 20
CLOCK_FILE = "CLI_FORKS_CLOCK"
"""Environment variable with a file: the wall clock of the verb is wrong by the milliseconds that the file contains."""


def run(
    words: Sequence[object], env: Mapping[str, str], cwd: Path | None = None, timeout_s: float = 60
) -> subprocess.CompletedProcess[str]:
    """Runs a verb to its end, with pipes and without input. Raises subprocess.TimeoutExpired."""
    out, err = os.pipe(), os.pipe()
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as link:
        pid = _request(link, words, env, cwd, [out[1], err[1]])
        for _, writing in (out, err):
            os.close(writing)
        try:
            texts = _read_all([out[0], err[0]], timeout_s)
        except TimeoutError:
            os.kill(pid, signal.SIGKILL)
            raise subprocess.TimeoutExpired(["windlass", *words], timeout_s) from None
        finally:
            os.close(out[0])
            os.close(err[0])
        return subprocess.CompletedProcess(["windlass", *words], int(link.recv(64)), *texts)


def start(words: Sequence[object], env: Mapping[str, str], output: Path) -> int:
    """Starts a verb that goes on by itself, such as a daemon; its output is appended to a file. Returns its pid."""
    with output.open("ab") as file, socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as link:
        return _request(link, words, env, None, [file.fileno(), file.fileno()])


def _request(
    link: socket.socket, words: Sequence[object], env: Mapping[str, str], cwd: Path | None, files: list[int]
) -> int:
    """Connects to the server, and requests a verb with this output. Returns its pid."""
    request = {"words": [str(word) for word in words], "env": dict(env), "cwd": str(cwd or Path.cwd())}
    link.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, _MAX_REQUEST_BYTES)
    link.connect(_server())
    socket.send_fds(link, [json.dumps(request).encode()], files)
    return int(link.recv(64))


def _read_all(files: list[int], timeout_s: float) -> list[str]:
    texts = dict.fromkeys(files, b"")
    with selectors.DefaultSelector() as reading:
        for file in files:
            reading.register(file, selectors.EVENT_READ)
        while reading.get_map():
            ready = reading.select(timeout_s)
            if not ready:
                raise TimeoutError
            for key, _ in ready:
                if data := os.read(key.fd, 1 << 16):
                    texts[key.fd] += data
                else:
                    reading.unregister(key.fd)
    return [text.decode() for text in texts.values()]


@functools.cache
def _server() -> str:
    """Starts the server that forks. It ends with this process, which holds the other end of its stdin."""
    folder = tempfile.TemporaryDirectory(prefix="windlass-cli-")
    address = f"{folder.name}/socket"
    command = [sys.executable, __file__, address]
    server = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert server.stdout is not None
    server.stdout.readline()  # it listens
    _SERVERS.append((server, folder))
    return address


_SERVERS: list[tuple[subprocess.Popen[bytes], tempfile.TemporaryDirectory[str]]] = []


def _serve(address: str) -> None:
    import gc  # noqa: PLC0415 - only the server

    _import_all()
    gc.freeze()
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    listener.bind(address)
    listener.listen(64)
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # no zombies
    os.write(1, b"listens\n")
    with selectors.DefaultSelector() as waiting:
        waiting.register(listener, selectors.EVENT_READ)
        waiting.register(0, selectors.EVENT_READ)
        while all(key.fileobj is listener for key, _ in waiting.select()):
            link, _ = listener.accept()
            if os.fork() == 0:
                listener.close()
                waiting.close()
                _handle(link)
            link.close()


def _import_all() -> None:
    from windlass.cli.verb_table import VERBS  # noqa: PLC0415 - the process of the tests need not import it
    from windlass.server.numpy_import import load_numpy  # noqa: PLC0415 - the same

    load_numpy()  # without threads, which a fork would not have
    families = sorted({family for family, _ in VERBS.values()})
    for module in ("windlass.cli.entry", *(f"windlass.cli.verbs.{family}" for family in families), *_IMPORTED):
        import_module(module)


def _handle(link: socket.socket) -> None:
    """Runs one verb in a child, and reports its pid and its exit code."""
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    data, files, _, _ = socket.recv_fds(link, _MAX_REQUEST_BYTES, 2)
    pid = os.fork()
    if pid == 0:
        link.close()
        _become_verb(json.loads(data), files)
    for file in files:
        os.close(file)
    link.send(b"%d" % pid)
    _, status = os.waitpid(pid, 0)
    with suppress(BrokenPipeError):  # of `start`, which does not wait
        link.send(b"%d" % os.waitstatus_to_exitcode(status))
    os._exit(0)


def _become_verb(request: dict[str, object], files: list[int]) -> None:
    from windlass.cli.entry import main  # noqa: PLC0415 - the process of the tests need not import it

    for file, standard in zip((os.open(os.devnull, os.O_RDONLY), *files), range(3), strict=True):
        os.dup2(file, standard)
        os.close(file)
    sys.stdin, sys.stdout = os.fdopen(0, closefd=False), os.fdopen(1, "w", closefd=False)
    sys.stderr = os.fdopen(2, "w", buffering=1, closefd=False)
    os.chdir(str(request["cwd"]))
    os.environ.clear()
    os.environ.update(request["env"])  # type: ignore[call-overload]
    sys.argv = ["windlass", *request["words"]]  # type: ignore[misc]
    if CLOCK_FILE in os.environ:
        _shift_wall_clock(Path(os.environ[CLOCK_FILE]))
    main()


def _shift_wall_clock(file: Path) -> None:
    correct = time.time_ns

    def shifted() -> int:
        return correct() + int(file.read_text()) * 1_000_000

    time.time_ns = shifted
    time.time = lambda: shifted() / 1e9


if __name__ == "__main__":
    sys.path[:] = [each for each in sys.path if Path(each) != Path(__file__).parent]
    _serve(sys.argv[1])
