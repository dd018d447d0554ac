"""The daemon of `windlass up`, in the foreground or as a process of its own."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from windlass.backends.local import folder_lock
from windlass.backends.local.paths import create_file, prepare_folder
from windlass.backends.port import BackendError
from windlass.server import numpy_import
from windlass.server import unix_socket as unix
from windlass.server.cluster_options import ClusterOptions
from windlass.server.discovery import find_controller
from windlass.server.errors import ApiError
from windlass.wire import escape_controls

_LOG = "daemon.log"
_RELEASE_TIMEOUT_S = 10.0
"""Seconds that a `windlass run` has to release the lock."""
_START_TIMEOUT_S = 30.0
_END_TIMEOUT_S = 30.0
_POLL_INTERVAL_S = 0.02


def serve(state: Path, options: ClusterOptions, say: Callable[[str], None]) -> None:
    """Runs the daemon until SIGTERM, SIGINT or `down`. Raises HeldError, BackendError, InputError."""
    os.umask(0o077)
    folder = prepare_folder(state)
    _wait_while_ending(state)
    held = _acquire_lock(state)
    try:
        asyncio.run(_run(folder.root, options, held, say))
    finally:
        held.release()


def start(state: Path, options: ClusterOptions) -> dict[str, Any]:
    """Starts a daemon process and returns its ping. Raises HeldError, BackendError with the last line of its log."""
    folder = prepare_folder(state)
    _wait_while_ending(state)
    log = folder.root / _LOG
    create_file(log)
    with log.open("ab") as output:
        begin = output.tell()
        daemon = subprocess.Popen(
            [sys.executable, "-m", "windlass.server.daemon", str(state), *_arguments(options)],
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            start_new_session=True,
            cwd="/",
        )
    until = time.monotonic() + _START_TIMEOUT_S
    while time.monotonic() < until and daemon.poll() is None:
        client = find_controller(state)
        if client is not None and client.facts["pid"] == daemon.pid:
            return client.facts
        time.sleep(_POLL_INTERVAL_S)
    last = log.read_bytes()[begin:].decode(errors="replace").strip().splitlines()
    raise BackendError(f"the daemon did not start: {last[-1] if last else 'it wrote no log'}; see {log}")


def _arguments(options: ClusterOptions) -> list[str]:
    return [
        "" if value is None else str(value)
        for value in (options.nodes, options.gpus, options.file and options.file.absolute(), options.policy)
    ]


def _wait_while_ending(state: Path) -> None:
    """Waits while the daemon that holds the lock ends, as after SIGTERM. Raises HeldError if it goes on."""
    folder = prepare_folder(state)
    until = time.monotonic() + _END_TIMEOUT_S
    while (holder := folder_lock.read_holder(folder)) is not None and holder.kind == "up":
        if not _is_ending(state) or time.monotonic() > until:
            raise folder_lock.HeldError(folder, holder)
        time.sleep(_POLL_INTERVAL_S)


def _is_ending(state: Path) -> bool:
    """Whether the daemon is ending. One that does not listen is ending too, or starting, and soon answers."""
    try:
        client = find_controller(state)
    except ApiError:  # it hangs
        return False
    if client is None:
        return True
    client.close()
    return bool(client.facts.get("ending"))


def _acquire_lock(state: Path) -> folder_lock.FolderLock:
    """Takes the lock. A `windlass run` that holds it releases it on request and becomes a client. Raises HeldError."""
    folder = prepare_folder(state)
    until = time.monotonic() + _RELEASE_TIMEOUT_S
    requested = False
    while True:
        try:
            return folder_lock.acquire_lock(folder, "up")
        except folder_lock.HeldError as error:
            is_run = error.holder is None or error.holder.kind == "run"
            if not is_run or time.monotonic() > until:
                raise
        if not requested and (client := find_controller(state)) is not None:
            requested = client.kind == "run" and _request_release(client)
            client.close()
        time.sleep(_POLL_INTERVAL_S / 4)


def _request_release(client: Any) -> bool:
    try:
        client.down(keep_jobs=True)
    except ApiError:  # it was just ending
        return False
    return True


async def _run(state: Path, options: ClusterOptions, held: folder_lock.FolderLock, say: Callable[[str], None]) -> None:
    numpy_import.load_numpy()
    from windlass.server.local_server import LocalServer  # noqa: PLC0415 - after the lock, so that a second `up` fails at once

    server = LocalServer(state, options, "up", held, None, say)
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        loop.add_signal_handler(number, server.leave)
    listener = unix.listen(state)
    say(f"up (pid {os.getpid()}) with {server.backend.cluster.text}; state in {state}")
    await server.live(listener)
    say("down; running jobs go on under the process supervisor" if server.keeps_jobs else "down")


def main(words: list[str]) -> int:
    """Entry point of `python -m windlass.server.daemon STATE NODES GPUS FILE POLICY`, which `start` runs."""
    state, nodes, gpus, file, policy = words
    options = ClusterOptions(
        int(nodes) if nodes else None, int(gpus) if gpus else None, Path(file) if file else None, policy
    )

    def say(text: str) -> None:
        sys.stdout.write(f"{time.strftime('%Y-%m-%d %H:%M:%S')} {escape_controls(text)}\n")
        sys.stdout.flush()

    try:
        serve(Path(state), options, say)
    except Exception as trouble:  # noqa: BLE001 - `up -d` prints the last line of the log
        say(" ".join(str(trouble).split()))
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
