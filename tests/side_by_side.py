"""The order in which tests run side by side, and which of them share a worker.

`make test` runs pytest-xdist with the scheduler below: tests of one group run on one worker, in their order. A file is
a group where its tests share something that is expensive to start (a control plane, a browser, forked ranks), and so is
a folder with a control plane of its own; all tests on real nodes are one group, since a machine has room for one pair
of nodes. Everything else is spread test by test.
(The groups of `--dist loadgroup` have no effect with pytest 9.2: pytest-xdist 3.8 sets an attribute that is gone.)

Slow groups come first, so that at the end only quick tests are left to fill the workers. Every second worker begins
with the tests on Kubernetes, which wait for much of their time, and the others with those that train, which wait for
little. Files that use the same control plane follow each other, because a worker ends a control plane when its next
file does not use it.
"""

from __future__ import annotations

import functools
import os
from pathlib import Path

import pytest
from xdist.remote import Producer
from xdist.scheduler import LoadScopeScheduling
from xdist.workermanage import WorkerController

ROOT = Path(__file__).resolve().parents[1]
SLOW_FIRST = (
    "tests/kubernetes",
    "tests/labs",
    "tests/contract",
    "tests/train",
    "tests/examples",
    "tests/browser",
    "tests/processes",
)
"""Folders with expensive fixtures, in the order in which they run. All others come after them."""
SPREAD = ("tests/labs", "tests/processes", "tests/contract")
"""Folders of SLOW_FIRST in which each test starts its own processes: these need no group."""
REAL_NODES = "real_nodes"
"""The group of tests on real nodes, and the word by which their files are known: a fixture or a mark."""
ON_NODES = ("tests/kubernetes/", "tests/labs/")
"""Folders with tests on real nodes."""
WAITING = ("tests/kubernetes", "tests/contract")
"""Folders whose tests wait for an API server and for pods."""
WITH_OWN_PLANE = ("tests/kubernetes/external",)
"""Folders that are groups, because their files share a control plane that no other file uses."""
PLANES = (REAL_NODES, *WITH_OWN_PLANE, "controllers", "apiserver")
"""Fixtures of control planes, and the folder that has its own, in the order in which they run."""


class GroupScheduling(LoadScopeScheduling):  # type: ignore[misc]
    """Gives all tests of a group to one worker, and each worker first the groups that wait or those that compute."""

    def _split_scope(self, nodeid: str) -> str:
        return group_of(nodeid)

    def _assign_work_unit(self, node: WorkerController) -> None:
        waiting = int(node.gateway.id.removeprefix("gw")) % 2 == 0
        group = next((each for each in self.workqueue if _is_waiting(each) == waiting), None)
        if group is not None:
            self.workqueue.move_to_end(group, last=False)
        super()._assign_work_unit(node)


def pytest_xdist_make_scheduler(config: pytest.Config, log: Producer) -> GroupScheduling:
    return GroupScheduling(config, log)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Put the slow groups first, in workers."""
    if "PYTEST_XDIST_WORKER" not in os.environ:
        return
    planes: dict[str, int] = {}
    for item in items:
        file = item.nodeid.partition("::")[0]
        planes[file] = min(planes.get(file, len(PLANES)), _plane(item, file))
    items.sort(key=lambda item: _turn(item.nodeid.partition("::")[0], planes))


def group_of(nodeid: str) -> str:
    """The name of the group that a test runs in; the test itself where it can run on any worker."""
    file = nodeid.partition("::")[0]
    if _is_on_real_nodes(file):
        return REAL_NODES
    if folder := _folder(file, WITH_OWN_PLANE):
        return folder
    return file if _folder(file, SLOW_FIRST) not in (*SPREAD, "") else nodeid


def _is_waiting(group: str) -> bool:
    return group == REAL_NODES or _folder(f"{group}/", WAITING) != ""


def _plane(item: pytest.Item, file: str) -> int:
    """Returns the index in PLANES of what the test uses, or its length."""
    if _is_on_real_nodes(file):
        return 0
    used = {*getattr(item, "fixturenames", ()), *(mark.name for mark in item.iter_markers())}
    return next((i for i, plane in enumerate(PLANES) if plane in used or file.startswith(f"{plane}/")), len(PLANES))


def _turn(file: str, planes: dict[str, int]) -> tuple[int, int]:
    folder = _folder(file, SLOW_FIRST)
    return SLOW_FIRST.index(folder) if folder else len(SLOW_FIRST), planes[file]


@functools.cache
def _is_on_real_nodes(file: str) -> bool:
    """Whether a file, or the conftest of its folder, names the fixture."""
    path = ROOT / file
    files = [each for each in (path, path.with_name("conftest.py")) if each.exists()]
    return file.startswith(ON_NODES) and any(REAL_NODES in each.read_text() for each in files)


def _folder(file: str, folders: tuple[str, ...]) -> str:
    return next((folder for folder in folders if file.startswith(f"{folder}/")), "")
