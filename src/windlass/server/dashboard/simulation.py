"""The what-if simulation of a dashboard: at most one runs, in a process of its own; the last result is kept."""

from __future__ import annotations

import asyncio
import contextlib
import json
import sys
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from windlass.controller.controller import Controller
from windlass.server.errors import ApiError, ErrorCode
from windlass.server.scheduler_queries import SchedulerQueries

Json = dict[str, Any]
SIMULATION = "simulation"
"""Name of the view."""
_WORKER = ("-m", "windlass.server.dashboard.simulation_worker")
_MAX_LINE_BYTES = 64 << 20
"""Longest line that the process prints: its result with the page of the report."""
_MAX_TEXT = 500
_TIME_S = 600.0
_MAX_EXTRA_NODES, _MAX_HOURS = 10_000, 10_000


class Simulation:
    """Starts and follows the process. Methods raise ApiError."""

    def __init__(self, scheduler: SchedulerQueries, controller: Controller, worker: Sequence[str] = _WORKER) -> None:
        self._scheduler, self._controller, self._worker = scheduler, controller, worker
        self._task: asyncio.Task[None] | None = None
        self._progress = 0.0
        self._asked: Json = {}
        self._result: Json = {}
        self._error = ""

    async def start(self, body: Mapping[str, Any]) -> Json:
        """Starts a simulation of the live snapshot with the changes of `body`."""
        if self._task is not None and not self._task.done():
            raise ApiError(ErrorCode.WRONG_STATE, "a simulation runs already", "stop it, or wait for its end")
        changes = read_changes(body)
        snapshot = await self._scheduler.snapshot(planned=False)
        request = {"snapshot": snapshot, "order": list(self._controller.plan.order), **changes}
        self._progress, self._asked, self._result, self._error = 0.0, changes, {}, ""
        self._task = asyncio.create_task(self._run(msgspec.json.encode(request) + b"\n"))
        return self.state()

    async def stop(self) -> Json:
        """Ends the process of a running simulation."""
        if self._task is not None and not self._task.done():
            self._task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._task
            self._error = "stopped"
        return self.state()

    def state(self) -> Json:
        """Progress from 0 to 1, what was asked, and the result, or an error; without the page of the report."""
        is_running = self._task is not None and not self._task.done()
        shown = {name: value for name, value in self._result.items() if name != "page"}
        return {
            "is_running": is_running,
            "progress": self._progress,
            "asked": self._asked,
            "error": self._error,
            "result": shown or None,
        }

    def report_page(self) -> str | None:
        """The page of the report, which is complete in itself; None without a result."""
        return self._result.get("page")

    async def _run(self, request: bytes) -> None:
        process = await asyncio.create_subprocess_exec(
            sys.executable,
            *self._worker,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.DEVNULL,
            limit=_MAX_LINE_BYTES,
            start_new_session=True,  # Ctrl-C in a terminal is not meant for it
        )
        assert process.stdin is not None and process.stdout is not None  # noqa: S101, PT018 - they are pipes
        try:
            async with asyncio.timeout(_TIME_S):
                process.stdin.write(request)
                await process.stdin.drain()
                async for line in process.stdout:
                    self._take(json.loads(line))
                    if self._result or self._error:
                        return
                await process.wait()
            self._error = f"its process ended with {process.returncode}: simulate fewer jobs or nodes"
        except TimeoutError:
            self._error = f"it took longer than {_TIME_S:g} s: simulate fewer jobs or nodes"
        except (OSError, ValueError) as error:
            self._error = f"its process gave no result: {error}"
        finally:
            if process.returncode is None:
                with contextlib.suppress(ProcessLookupError):
                    process.kill()
                await process.wait()

    def _take(self, line: Json) -> None:
        self._progress = line.get("progress", self._progress)
        self._error = line.get("error", self._error)
        self._result = line.get("result", self._result)


def read_changes(body: Mapping[str, Any]) -> Json:
    """The changes of a request: policies, nodes, source of jobs. Raises ApiError."""
    texts = {name: body.get(name, "") for name in ("policies", "synthetic", "path")}
    for name, text in texts.items():
        if not isinstance(text, str) or len(text) > _MAX_TEXT:
            raise ApiError(ErrorCode.BAD_REQUEST, f"{name} is a text of at most {_MAX_TEXT} characters")
    extra, hours = body.get("extra_nodes", 0), body.get("unlimited_hours", 1)
    for name, number, least, most in (
        ("extra_nodes", extra, -_MAX_EXTRA_NODES, _MAX_EXTRA_NODES),
        ("unlimited_hours", hours, 1, _MAX_HOURS),
    ):
        if not isinstance(number, int) or isinstance(number, bool) or not least <= number <= most:
            raise ApiError(ErrorCode.BAD_REQUEST, f"{name} is a whole number from {least} to {most}")
    return {**texts, "extra_nodes": extra, "unlimited_hours": hours}
