"""`windlass up`: a house that stays, in the foreground or on its own."""

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
from windlass.backends.local.paths import prepare
from windlass.backends.port import BackendError
from windlass.server import numpy_import
from windlass.server import unix_socket as unix
from windlass.server.cluster_options import ClusterOptions
from windlass.server.discovery import find_controller
from windlass.server.errors import ApiError

_LOG = "daemon.log"
_SUCCESSION = 10.0
"""Seconds that a `windlass run` may take to make room."""
_START = 30.0
_PAUSE = 0.02


def serve(state: Path, wanted: ClusterOptions, say: Callable[[str], None]) -> None:
    """Be the daemon until SIGTERM, SIGINT or `down`. Raises HeldError, WorldError, JobError."""
    folder = prepare(state)
    held = _take_over(state)
    try:
        asyncio.run(_live(folder.root, wanted, held, say))
    finally:
        held.release()


def start(state: Path, wanted: ClusterOptions) -> dict[str, Any]:
    """Start a daemon of its own, and return its facts once it answers. Raises WorldError with its last words."""
    folder = prepare(state)
    if (holder := folder_lock.holder(folder)) is not None and holder.kind == "up":
        raise folder_lock.HeldError(folder, holder)
    log = folder.root / _LOG
    with log.open("ab") as output:
        begin = output.tell()
        daemon = subprocess.Popen(
            [sys.executable, "-m", "windlass.server.daemon", str(state), *_words(wanted)],
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            start_new_session=True,
            cwd="/",
        )
    until = time.monotonic() + _START
    while time.monotonic() < until and daemon.poll() is None:
        client = find_controller(state)
        if client is not None and client.facts["pid"] == daemon.pid:
            return client.facts
        time.sleep(_PAUSE)
    last = log.read_bytes()[begin:].decode(errors="replace").strip().splitlines()
    raise BackendError(f"the daemon did not come up: {last[-1] if last else 'it said nothing'}; see {log}")


def _words(wanted: ClusterOptions) -> list[str]:
    return [
        "" if value is None else str(value)
        for value in (wanted.nodes, wanted.gpus, wanted.file and wanted.file.absolute(), wanted.policy)
    ]


def _take_over(state: Path) -> folder_lock.Lock:
    """The lock; a `windlass run` that has it is asked to make room, and goes on as our client. Raises HeldError."""
    folder = prepare(state)
    until = time.monotonic() + _SUCCESSION
    asked = False
    while True:
        try:
            return folder_lock.acquire(folder, "up")
        except folder_lock.HeldError as error:
            is_run = error.holder is None or error.holder.kind == "run"
            if not is_run or time.monotonic() > until:
                raise
        if not asked and (client := find_controller(state)) is not None:
            asked = client.kind == "run" and _ask_for_room(client)
            client.close()
        time.sleep(_PAUSE / 4)


def _ask_for_room(client: Any) -> bool:
    try:
        client.down(keep_jobs=True)
    except ApiError:  # it was just leaving
        return False
    return True


async def _live(state: Path, wanted: ClusterOptions, held: folder_lock.Lock, say: Callable[[str], None]) -> None:
    numpy_import.load_numpy()
    from windlass.server.local_server import LocalServer  # noqa: PLC0415 - after the lock, so that a second `up` says so at once

    house = LocalServer(state, wanted, "up", held, None, say)
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        loop.add_signal_handler(number, house.leave)
    listener = unix.listen(state)
    say(f"up (pid {os.getpid()}) with {house.world.cluster.text}; state in {state}")
    await house.live(listener)
    say("down; jobs that run go on under the supervisor" if house.keeps_jobs else "down")


def main(words: list[str]) -> int:
    """`python -m windlass.server.daemon STATE NODES GPUS FILE POLICY`: what `start` starts."""
    state, nodes, gpus, file, policy = words
    wanted = ClusterOptions(
        int(nodes) if nodes else None, int(gpus) if gpus else None, Path(file) if file else None, policy
    )

    def say(text: str) -> None:
        sys.stdout.write(f"{time.strftime('%Y-%m-%d %H:%M:%S')} {text}\n")
        sys.stdout.flush()

    try:
        serve(Path(state), wanted, say)
    except Exception as trouble:  # noqa: BLE001 - the last line of the log is what `up -d` tells
        say(" ".join(str(trouble).split()))
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
