"""Lists and watches every kind with a client of its own, and hands each observation to the judge."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from types import TracebackType
from typing import Self

import aiohttp

from windlass.controlplane.api import Api, ApiError

from .cluster_view import Observation, Verb
from .judge import Judge

_RETRY_INTERVAL_S = 0.1
_TICK_S = 0.5
"""Seconds between two observations of the time alone."""


class Observer:
    """Observes the kinds of `paths` (by kind: the list over all namespaces). An async context manager.

    It uses the API alone, and directly: no fault proxy is between.
    """

    def __init__(self, api: Api, judge: Judge, paths: dict[str, str]) -> None:
        self._api, self.judge, self._paths = api, judge, paths
        self._began = time.monotonic()
        self._listed: set[str] = set()
        self._tasks: Sequence[asyncio.Task[None]] = ()

    async def __aenter__(self) -> Self:
        self._tasks = [asyncio.create_task(self._follow(*each)) for each in self._paths.items()]
        self._tasks = [*self._tasks, asyncio.create_task(self._tick())]
        while self._listed < self._paths.keys():
            await asyncio.sleep(_RETRY_INTERVAL_S)
            self._raise_errors()
        return self

    async def __aexit__(
        self, _kind: type[BaseException] | None, _error: BaseException | None, _trace: TracebackType | None
    ) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def _raise_errors(self) -> None:
        """A witness that has ended sees no violation: its errors are errors of the test."""
        for task in self._tasks:
            if task.done():
                task.result()

    def observe(self, verb: Verb, kind: str = "", *objects: dict[str, object]) -> None:
        self.judge.observe(Observation(time.monotonic() - self._began, verb, kind, objects))

    def check_running(self) -> None:
        """Raises the error that ended a watch."""
        self._raise_errors()

    async def _tick(self) -> None:
        while True:
            await asyncio.sleep(_TICK_S)
            self.observe(Verb.TIME)

    async def _follow(self, kind: str, path: str) -> None:
        while True:
            self.observe(Verb.BLIND, kind)
            try:
                listed = await self._api.get(path)
                self.observe(Verb.LISTED, kind, *listed["items"])
                self._listed.add(kind)
                await self._watch(kind, path, listed["metadata"]["resourceVersion"])
            except (ApiError, aiohttp.ClientError, OSError):
                await asyncio.sleep(_RETRY_INTERVAL_S)

    async def _watch(self, kind: str, path: str, version: str) -> None:
        """Continues across watches that the API server ends in time, without a list."""
        while True:
            async for event in self._api.watch(path, version):
                version = event["object"]["metadata"]["resourceVersion"]
                if event["type"] != "BOOKMARK":
                    self.observe(Verb.GONE if event["type"] == "DELETED" else Verb.SEEN, kind, event["object"])
