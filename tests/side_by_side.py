"""The order in which tests run side by side, and which of them share a worker.

`make test` runs pytest-xdist with the scheduler below: tests of one group run on one worker, in their order. A file is
a group where its tests share something that is expensive to start (a control plane, a browser, forked ranks); all tests
on real nodes are one group, since a machine has room for one pair of nodes. Everything else is spread test by test.
(The groups of `--dist loadgroup` have no effect with pytest 9.2: pytest-xdist 3.8 sets an attribute that is gone.)

Slow groups come first, so that at the end only quick tests are left to fill the workers.
"""

from __future__ import annotations

import functools
import os
from pathlib import Path

import pytest
from xdist.remote import Producer
from xdist.scheduler import LoadScopeScheduling

ROOT = Path(__file__).resolve().parents[1]
SLOW_FIRST = ("tests/kubernetes", "tests/train", "tests/examples", "tests/browser", "tests/processes", "tests/contract")
"""Folders with expensive fixtures, those with the longest files first. All others come after them."""
SPREAD = ("tests/processes", "tests/contract")
"""Folders of SLOW_FIRST in which each test starts its own processes: these need no group."""
REAL_NODES = "real_nodes"
"""The group of tests on real nodes, and the word by which their files are known: a fixture or a mark."""


class GroupScheduling(LoadScopeScheduling):  # type: ignore[misc]
    """Gives all tests of a group to one worker."""

    def _split_scope(self, nodeid: str) -> str:
        return group_of(nodeid)


def pytest_xdist_make_scheduler(config: pytest.Config, log: Producer) -> GroupScheduling:
    return GroupScheduling(config, log)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Put the slow groups first, in workers."""
    if "PYTEST_XDIST_WORKER" in os.environ:
        items.sort(key=lambda item: _turn(item.nodeid))


def group_of(nodeid: str) -> str:
    """The name of the group that a test runs in; the test itself where it can run on any worker."""
    file = nodeid.partition("::")[0]
    if _is_on_real_nodes(file):
        return REAL_NODES
    return file if _folder(file, SLOW_FIRST) not in (*SPREAD, "") else nodeid


def _turn(nodeid: str) -> tuple[int, int]:
    file = nodeid.partition("::")[0]
    folder = _folder(file, SLOW_FIRST)
    return int(not _is_on_real_nodes(file)), SLOW_FIRST.index(folder) if folder else len(SLOW_FIRST)


@functools.cache
def _is_on_real_nodes(file: str) -> bool:
    """Whether a file, or the conftest of its folder, names the fixture."""
    path = ROOT / file
    return any(REAL_NODES in each.read_text() for each in (path, path.with_name("conftest.py")) if each.exists())


def _folder(file: str, folders: tuple[str, ...]) -> str:
    return next((folder for folder in folders if file.startswith(f"{folder}/")), "")
