"""JupyterLab in this process: its settings, and what watches its kernels."""

from __future__ import annotations

import asyncio
import os
import signal
import time
from collections.abc import Callable, Collection
from pathlib import Path
from types import FrameType
from typing import Any

from jupyterlab.labapp import LabApp
from tornado.ioloop import PeriodicCallback

from windlass.jupyter.idleness import idle_seconds
from windlass.jupyter.workspace_checkpoint import newest_change

_WATCH_MS = 1000
_NO_NEWS = "jupyterlab.handlers.announcements.NeverCheckForUpdate"


class Lab:
    """One server of JupyterLab. The address accepts connections once it has been made.

    `skipped`: folders whose files do not belong to the workspace, even if they lie in it.
    """

    def __init__(
        self,
        workspace: Path,
        port: int,
        token: str,
        *,
        skipped: Collection[Path],
        idle_limit_s: float,
        first_page: str,
        say: Callable[[str], None],
    ) -> None:
        self._workspace, self._skipped = workspace, skipped
        self._idle_limit_s, self._say = idle_limit_s, say
        self._changed = time.time()
        """Time of the last change of a file that is known, at first of the start."""
        self._is_terminated = False
        self._watched: dict[str, str] = {}
        """Path of the notebook of each kernel, by the kernel's id."""
        settings = _settings(workspace, port, token, first_page)
        self._server: Any = LabApp.initialize_server(argv=settings)
        self._stop = signal.signal(signal.SIGTERM, self._terminate)

    def run(self) -> bool:
        """Serves until the notebook is idle or stopped. Returns whether SIGTERM has ended it."""
        watch = PeriodicCallback(self._watch, _WATCH_MS)
        self._server.io_loop.add_callback(watch.start)
        self._server.start()
        return self._is_terminated

    async def _watch(self) -> None:
        """Follows new kernels, and stops the server once the notebook is idle."""
        for session in await self._server.session_manager.list_sessions():
            self._follow(session["kernel"]["id"], session["path"])
        if self._idle_limit_s and await self._is_idle():
            self._say(f"idle for {self._idle_limit_s:g} s: the notebook ends; the same command starts it again")
            self._server.stop()

    async def _is_idle(self) -> bool:
        """Looks at the files only once nothing else has happened: a workspace may hold very many."""
        if self._idle_seconds() < self._idle_limit_s:
            return False
        newest = await asyncio.to_thread(newest_change, self._workspace, time.time(), self._skipped)
        self._changed = max(self._changed, newest)
        return self._idle_seconds() >= self._idle_limit_s

    def _idle_seconds(self) -> float:
        terminals = self._server.web_app.settings.get("terminal_manager")
        kernels = self._server.kernel_manager.list_kernels()
        return idle_seconds(kernels, terminals.list() if terminals else (), self._changed, time.time())

    def _follow(self, kernel: str, path: str) -> None:
        """Reports each death of a kernel, which Jupyter starts again."""
        if kernel in self._watched or kernel not in self._server.kernel_manager:
            return
        self._watched[kernel] = path
        lost = "its variables are lost, its cells and their output are kept"
        self._add(
            kernel, "restart", f"the kernel of {path} has died and was started again: {lost}; run the cells again"
        )
        self._add(kernel, "dead", f"the kernel of {path} dies at each start: {lost}; see the output above")

    def _add(self, kernel: str, event: str, text: str) -> None:
        self._server.kernel_manager.add_restart_callback(kernel, lambda: self._say(text), event)

    def _terminate(self, number: int, frame: FrameType | None) -> None:
        self._is_terminated = True
        if callable(self._stop):
            self._stop(number, frame)


def _settings(workspace: Path, port: int, token: str, first_page: str) -> list[str]:
    """Options that win over the user's settings of Jupyter. They are those of a call, not of this process."""
    default = f"/lab/tree/{first_page}" if first_page else "/lab"
    root = ["--allow-root"] if os.geteuid() == 0 else []
    return [
        *root,
        "--no-browser",
        "--ServerApp.ip=127.0.0.1",
        f"--ServerApp.port={port}",
        "--ServerApp.port_retries=0",
        f"--ServerApp.root_dir={workspace}",
        f"--LabApp.default_url={default}",
        f"--IdentityProvider.token={token}",
        "--ServerApp.allow_remote_access=False",
        f"--LabApp.check_for_updates_class={_NO_NEWS}",
        "--LabApp.news_url=None",
        "--LabApp.extension_manager=readonly",
    ]
