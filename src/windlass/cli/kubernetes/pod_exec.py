"""A command inside of a pod, in the foreground of this terminal."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
import sys
import termios
import threading
import tty
from collections.abc import Iterator, Sequence
from typing import Any

from windlass.backends.kubernetes.client.channels import RESIZE, STATUS, STDERR, STDIN, STDOUT, Channels, channels
from windlass.backends.kubernetes.client.resources import PODS, path
from windlass.cli.exit_codes import ExitCode
from windlass.cli.kubernetes.api_session import ApiSession
from windlass.cli.kubernetes.pod_ranks import PodRank

_CHUNK = 1 << 16


def execute_in_pod(reach: ApiSession, pod: PodRank, command: Sequence[str]) -> int:
    """Run it with this terminal, or these pipes. Returns its exit code. Raises ApiError."""
    interactive = sys.stdin.isatty() and sys.stdout.isatty()
    told = [("container", pod.container), ("stdin", "true"), ("stdout", "true")]
    told += [("tty", "true")] if interactive else [("stderr", "true")]
    asked = [*told, *(("command", word) for word in command)]
    with _raw() if interactive else contextlib.nullcontext():
        return reach.do(_execute(reach, path(PODS, pod.namespace, pod.name, "exec"), asked, interactive=interactive))


async def _execute(reach: ApiSession, where: str, asked: list[tuple[str, str]], *, interactive: bool) -> int:
    async with channels(reach.access, where, asked) as inside:
        pending: set[asyncio.Task[None]] = set()

        def send(channel: int, data: bytes) -> None:
            task = asyncio.ensure_future(inside.send(channel, data) if data else inside.end_of_input())
            pending.add(task)
            task.add_done_callback(pending.discard)

        if interactive:
            loop = asyncio.get_running_loop()
            loop.add_signal_handler(signal.SIGWINCH, lambda: send(RESIZE, _size()))
            send(RESIZE, _size())
        _read_input(lambda data: send(STDIN, data))
        code = await _pass_on(inside)
        for task in pending:
            task.cancel()
        return code


async def _pass_on(inside: Channels) -> int:
    """Write out what comes, until the status does."""
    while (came := await inside.receive()) is not None:
        channel, data = came
        if channel in (STDOUT, STDERR):
            stream = sys.stdout if channel == STDOUT else sys.stderr
            stream.buffer.write(data)
            stream.flush()
        elif channel == STATUS:
            return read_exit_code(json.loads(data))
    print("windlass: the connection into the pod ended before the command did", file=sys.stderr)
    return ExitCode.FAILED


def read_exit_code(status: dict[str, Any]) -> int:
    """The exit code that a Status tells; a command that could not be started is told of, and has failed."""
    if status.get("status") == "Success":
        return ExitCode.OK
    causes = (status.get("details") or {}).get("causes") or []
    code = next((each.get("message", "") for each in causes if each.get("reason") == "ExitCode"), "")
    if code.isdecimal():
        return int(code)
    print(f"windlass: {status.get('message', 'the command could not be run')}", file=sys.stderr)
    return ExitCode.FAILED


def _read_input(send: Any) -> None:
    """Read standard input beside the loop: it may be a file, a pipe or a terminal, and is read to its end."""
    loop, source = asyncio.get_running_loop(), sys.stdin.fileno()

    def read() -> None:
        with contextlib.suppress(OSError, RuntimeError):  # the terminal has gone; the loop has
            while data := os.read(source, _CHUNK):
                loop.call_soon_threadsafe(send, data)
            loop.call_soon_threadsafe(send, b"")

    threading.Thread(target=read, daemon=True, name="stdin").start()


def _size() -> bytes:
    width, height = os.get_terminal_size(sys.stdout.fileno())
    return json.dumps({"Width": width, "Height": height}).encode()


@contextlib.contextmanager
def _raw() -> Iterator[None]:
    """Every key goes to the command, Ctrl-C too."""
    terminal = sys.stdin.fileno()
    before = termios.tcgetattr(terminal)
    tty.setraw(terminal)
    try:
        yield
    finally:
        termios.tcsetattr(terminal, termios.TCSADRAIN, before)
