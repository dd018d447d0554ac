"""The order in which tests run side by side, and which of them share a worker.

`make test` runs pytest-xdist with `--dist loadgroup`: tests of one group run on one worker, in their order. A file is a
group where its tests share something that is expensive to start (a control plane, a browser, forked ranks); all tests
on real nodes are one group, since a machine has room for one pair of nodes. Everything else is spread test by test.

Slow groups come first, so that at the end only quick tests are left to fill the workers.
"""

from __future__ import annotations

from collections.abc import Generator
from pathlib import Path

import pytest
from controlplane.fixtures import grade_of

SLOW_FIRST = ("tests/kubernetes", "tests/train", "tests/examples", "tests/browser", "tests/processes", "tests/contract")
"""Folders with expensive fixtures, those with the longest files first. All others come after them."""
SPREAD = ("tests/processes", "tests/contract")
"""Folders of SLOW_FIRST in which each test starts its own processes: these need no group."""


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> Generator[None, None, None]:
    """Put every test into its group, and the slow groups first.

    It is a wrapper, since pytest-xdist reads the groups in a hook that comes first among the others.
    """
    if getattr(config.option, "loadgroup", False):  # set by pytest-xdist in its workers
        for item in items:
            if name := group_of(item):
                item.add_marker(pytest.mark.xdist_group(name))
        items.sort(key=_turn)
    yield


def group_of(item: pytest.Item) -> str:
    """The name of the group that a test runs in; empty for a test that can run on any worker."""
    grades = grade_of(item)
    if "real_nodes" in grades:
        return "real_nodes"
    file = _file(item)
    if grades or _folder(file, SLOW_FIRST) not in (*SPREAD, ""):
        return file
    return ""


def _turn(item: pytest.Item) -> tuple[int, int]:
    folder = _folder(_file(item), SLOW_FIRST)
    rank = SLOW_FIRST.index(folder) if folder else len(SLOW_FIRST)
    return (0 if "real_nodes" in grade_of(item) else 1), rank


def _folder(file: str, folders: tuple[str, ...]) -> str:
    return next((folder for folder in folders if file.startswith(f"{folder}/")), "")


def _file(item: pytest.Item) -> str:
    return Path(item.path).relative_to(item.config.rootpath).as_posix()
