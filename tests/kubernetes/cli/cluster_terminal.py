"""Runs `windlass` in a process, forked or started, against a cluster of the tests."""

from __future__ import annotations

import asyncio
import functools
import os
import signal
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import cli_forks
import strays

WINDLASS = Path(sys.executable).with_name("windlass")


class Ran(NamedTuple):
    code: int
    out: str
    err: str


@dataclass
class Terminal:
    """`windlass(words)` waits for the end; `began(words)` yields the process. The current folder is `folder`.

    A verb without input is forked from a process that has imported it, others are started.
    """

    kubeconfig: Path
    folder: Path
    operator: str = ""

    async def __call__(self, *words: str, given: bytes = b"") -> Ran:
        if not given:
            wait = functools.partial(cli_forks.run, words, self._environment(), self.folder, strays.TIMEOUT_S * 2)
            ran = await asyncio.to_thread(wait)
            return Ran(ran.returncode, ran.stdout, ran.stderr)
        async with self.began(*words) as process:
            out, err = await asyncio.wait_for(process.communicate(given), strays.TIMEOUT_S * 2)
        assert process.returncode is not None
        return Ran(process.returncode, out.decode(), err.decode())

    async def done(self, *words: str) -> str:
        """Runs a verb that must succeed; returns its stdout."""
        ran = await self(*words)
        assert ran.code == 0, ran
        return ran.out.strip()

    @asynccontextmanager
    async def began(self, *words: str) -> AsyncIterator[asyncio.subprocess.Process]:
        """Starts a verb; kills it if it still runs at the end of the block."""
        pipe = asyncio.subprocess.PIPE
        process = await asyncio.create_subprocess_exec(
            WINDLASS, *words, stdin=pipe, stdout=pipe, stderr=pipe, cwd=self.folder, env=self._environment()
        )
        try:
            yield process
        finally:
            if process.returncode is None:
                process.send_signal(signal.SIGKILL)
                await process.wait()

    def _environment(self) -> dict[str, str]:
        kept = {name: value for name, value in os.environ.items() if not name.startswith("WINDLASS")}
        return {
            **kept,
            "KUBECONFIG": str(self.kubeconfig),
            "WINDLASS_ON": "kubernetes",
            "WINDLASS_OPERATOR": self.operator,
            "XDG_CONFIG_HOME": str(self.folder / "config"),
        }


async def until_says(process: asyncio.subprocess.Process, words: str) -> str:
    """Waits for a line of stderr that contains these words, and returns it."""
    assert process.stderr is not None
    async with asyncio.timeout(strays.TIMEOUT_S * 2):
        while line := (await process.stderr.readline()).decode():
            if words in line:
                return line
    raise AssertionError(f"it ended without saying {words!r}")
