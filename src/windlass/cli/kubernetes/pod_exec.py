"""Runs a command inside a pod in the foreground of this terminal, over the exec channels of the API server."""

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


def execute_in_pod(session: ApiSession, pod: PodRank, command: Sequence[str]) -> int:
    """Runs a command with this terminal, or these pipes. Returns its exit code. Raises ApiError."""
    interactive = sys.stdin.isatty() and sys.stdout.isatty()
    parameters = [("container", pod.container), ("stdin", "true"), ("stdout", "true")]
    parameters += [("tty", "true")] if interactive else [("stderr", "true")]
    parameters += [("command", word) for word in command]
    with _raw() if interactive else contextlib.nullcontext():
        return session.run(
            _execute(session, path(PODS, pod.namespace, pod.name, "exec"), parameters, interactive=interactive)
        )


async def _execute(session: ApiSession, where: str, parameters: list[tuple[str, str]], *, interactive: bool) -> int:
    async with channels(session.access, where, parameters) as inside:
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
        code = await _print_output(inside)
        for task in pending:
            task.cancel()
        return code


async def _print_output(inside: Channels) -> int:
    """Writes the output of the command until its status arrives; returns the exit code."""
    while (message := await inside.receive()) is not None:
        channel, data = message
        if channel in (STDOUT, STDERR):
            stream = sys.stdout if channel == STDOUT else sys.stderr
            stream.buffer.write(data)
            stream.flush()
        elif channel == STATUS:
            return read_exit_code(json.loads(data))
    print("windlass: the connection into the pod ended before the command did", file=sys.stderr)
    return ExitCode.FAILED


def read_exit_code(status: dict[str, Any]) -> int:
    """Returns the exit code of a Status object; prints the error of a command that could not be started."""
    if status.get("status") == "Success":
        return ExitCode.OK
    causes = (status.get("details") or {}).get("causes") or []
    code = next((each.get("message", "") for each in causes if each.get("reason") == "ExitCode"), "")
    if code.isdecimal():
        return int(code)
    print(f"windlass: {status.get('message', 'the command could not be run')}", file=sys.stderr)
    return ExitCode.FAILED


def _read_input(send: Any) -> None:
    """Reads standard input (file, pipe or terminal) to its end in a thread and sends it from the event loop."""
    loop, source = asyncio.get_running_loop(), sys.stdin.fileno()

    def read() -> None:
        with contextlib.suppress(OSError, RuntimeError):  # the terminal was closed; the loop was closed
            while data := os.read(source, _CHUNK):
                loop.call_soon_threadsafe(send, data)
            loop.call_soon_threadsafe(send, b"")

    threading.Thread(target=read, daemon=True, name="stdin").start()


def _size() -> bytes:
    width, height = os.get_terminal_size(sys.stdout.fileno())
    return json.dumps({"Width": width, "Height": height}).encode()


@contextlib.contextmanager
def _raw() -> Iterator[None]:
    """Sets the terminal to raw mode: every key, including Ctrl-C, goes to the command."""
    terminal = sys.stdin.fileno()
    before = termios.tcgetattr(terminal)
    tty.setraw(terminal)
    try:
        yield
    finally:
        termios.tcsetattr(terminal, termios.TCSADRAIN, before)
