"""Runs tests against a leading operator on a real API server."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path

import pytest
from operator_place import OperatorPlace, leading
from postgres_server import PostgresServer, programs
from train_jobs import clear_trainjobs

import strays
from windlass.controlplane.cluster import ControlPlane


@pytest.fixture
def tell(apiserver: ControlPlane, tmp_path: Path) -> Callable[[Callable[[OperatorPlace], Awaitable[None]]], None]:
    """Run a coroutine with a leading operator."""

    def run(story: Callable[[OperatorPlace], Awaitable[None]]) -> None:
        async def run_scenario() -> None:
            async with asyncio.timeout(strays.TIMEOUT_S * 4), leading(apiserver, tmp_path) as place:
                await story(place)

        asyncio.run(run_scenario())

    return run


@pytest.fixture
def without_trainjobs(apiserver: ControlPlane) -> Iterator[None]:
    """Remove the TrainJobs and runtimes of a test at its end."""
    yield
    asyncio.run(clear_trainjobs(apiserver))


@pytest.fixture(scope="module")
def postgres() -> Iterator[PostgresServer]:
    """A PostgreSQL server for the tests of a file."""
    found = programs()
    if found is None:
        pytest.skip("PostgreSQL is not installed: sh tools/install_postgresql.sh")
    with PostgresServer(found) as server:
        yield server
