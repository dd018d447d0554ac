"""The control plane as fixtures of a test session; `tests/conftest.py` hands them to every folder of tests.

The programs are built beside the other tests: tests that need them come last, and a first build runs meanwhile with
little priority. Where they cannot be had the tests are skipped and say why; under CI that is a failure.
"""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Generator, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from windlass.controlplane import cluster
from windlass.controlplane import real_nodes as nodes
from windlass.controlplane.build import BuildError, find_all, missing, report
from windlass.controlplane.cluster import ControlPlane, Settings
from windlass.controlplane.processes import spawn
from windlass.controlplane.programs import API_SERVER, CONTROLLERS, INSTALLERS, REAL_NODES
from windlass.controlplane.real_nodes import RealCluster

from .audit_log import keep_calls, recorded

GRADES = {"apiserver": API_SERVER, "installers": INSTALLERS, "controllers": CONTROLLERS, "real_nodes": REAL_NODES}
"""The programs that each fixture or mark needs. A test names one as a fixture or as a mark; `installers` is a mark."""
OPERATORS = tuple(f"system:serviceaccount:{each}:windlass-operator" for each in ("default", "windlass-system"))
"""Users whose requests are recorded: the operator of tests, and an installed one."""
RECORDED = "recorded"
"""A user whose requests are recorded too, for tests of what the audit log contains."""
FOLDER = Path(__file__).resolve().parents[1]
BUILDER = Path(__file__).resolve().parents[3] / "tools/control_plane.py"
Definition = pytest.FixtureDef[Any]


def grade_of(item: pytest.Item) -> Sequence[str]:
    """The fixtures of GRADES that a test needs, seen from outside."""
    asked = getattr(item, "fixturenames", ())
    return [grade for grade in GRADES if grade in asked or item.get_closest_marker(grade)]


def programs_of(items: Sequence[pytest.Item]) -> list[str]:
    return sorted({program for item in items for grade in grade_of(item) for program in GRADES[grade]})


def pytest_configure(config: pytest.Config) -> None:
    for grade in GRADES:
        config.addinivalue_line("markers", f"{grade}: needs the control plane of that name")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Put tests without a control plane first where its programs are still to be built."""
    if missing(programs_of(items)):
        items.sort(key=lambda item: len(programs_of([item])))


def pytest_collection_finish(session: pytest.Session) -> None:
    """Start to build what is missing, in a process that ends with us."""
    wanted = missing(programs_of(session.items))
    if os.environ.get("PYTEST_XDIST_WORKER", "gw0") != "gw0":
        return  # one builder for all workers
    if wanted and sys.platform == "linux" and not session.config.option.collectonly:
        report(f"building {', '.join(wanted)} while other tests run")
        session.config.add_cleanup(spawn([sys.executable, BUILDER, "build", *wanted], Path(os.devnull)).kill)


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_protocol(item: pytest.Item) -> Generator[None, object, object]:
    """Wait for the build before the test's own time begins to run."""
    wanted = missing(programs_of([item]))
    if wanted and sys.platform == "linux" and _FAILED not in item.config.stash:
        capture = item.config.pluginmanager.getplugin("capturemanager")
        with capture.global_and_fixture_disabled():
            try:
                find_all(wanted)
            except BuildError as failed:
                item.config.stash[_FAILED] = str(failed)
    return (yield)


@pytest.hookimpl(wrapper=True)
def pytest_fixture_setup(
    fixturedef: pytest.FixtureDef[Any], request: pytest.FixtureRequest
) -> Generator[None, Any, Any]:
    """Remember the fixtures of tests on Kubernetes that have the scope of a session."""
    value = yield
    if fixturedef.scope == "session" and _file_of(fixturedef).is_relative_to(FOLDER):
        request.config.stash.setdefault(_STARTED, []).append((fixturedef, request))
    return value


@pytest.hookimpl(wrapper=True)
def pytest_runtest_teardown(item: pytest.Item, nextitem: pytest.Item | None) -> Generator[None, Any, Any]:
    """End the control planes that the next file does not use: an idle one takes 2 to 10 % of a core.

    A later file that uses one starts it again; `tests/side_by_side.py` puts files with the same one together.
    """
    value = yield
    if nextitem is not None and nextitem.path != item.path:
        started, names = item.config.stash.get(_STARTED, []), _fixtures_of_file(item.session, nextitem.path)
        for fixturedef, request in started[::-1]:
            if fixturedef.argname not in names or not nextitem.path.is_relative_to(_visible_below(fixturedef)):
                started.remove((fixturedef, request))
                fixturedef.finish(request)
    return value


def _fixtures_of_file(session: pytest.Session, path: Path) -> set[str]:
    items = [item for item in session.items if item.path == path]
    return {name for item in items for name in (*getattr(item, "fixturenames", ()), *grade_of(item))}


def _file_of(fixturedef: Definition) -> Path:
    return Path(fixturedef.func.__code__.co_filename)


def _visible_below(fixturedef: Definition) -> Path:
    """The folder whose tests see the fixture."""
    file = _file_of(fixturedef)
    return file.parents[-1] if file == Path(__file__) else file.parent


_FAILED = pytest.StashKey[str]()
_STARTED = pytest.StashKey[list[tuple[Definition, Any]]]()
"""Fixtures that exist, each with its request, in the order of their starts."""


@pytest.fixture(scope="session")
def apiserver(request: pytest.FixtureRequest) -> Iterator[ControlPlane]:
    """Grade 1: etcd and an API server, TLS and RBAC on. Nodes are `FakeKubelets`. Pods need no service account."""
    yield from serve(request, Settings())


@pytest.fixture(scope="session")
def controllers(request: pytest.FixtureRequest) -> Iterator[ControlPlane]:
    """Grade 2: and a controller-manager. Nodes that do not renew their lease for 8 s are unreachable."""
    yield from serve(request, Settings(controllers=True))


@pytest.fixture(scope="session")
def real_nodes(request: pytest.FixtureRequest) -> Iterator[RealCluster]:
    """Grade 3: and two nodes that really run containers, with two devices each."""
    yield from serve_nodes(request)


def serve_nodes(request: pytest.FixtureRequest) -> Iterator[RealCluster]:
    """For fixtures of nodes that are not to outlive a test, which bears the mark `real_nodes`."""
    _must_be_possible(request.config, REAL_NODES)
    if lacking := nodes.missing_requirement():
        refuse(lacking)
    with tempfile.TemporaryDirectory(prefix="windlass-") as folder:
        real = nodes.start(Path(folder) / "nodes", settings=recorded(Settings(), Path(folder), OPERATORS))
        try:
            yield real
        finally:
            real.close()
            keep_calls(Path(folder))


def serve(request: pytest.FixtureRequest, settings: Settings) -> Iterator[ControlPlane]:
    """For fixtures of planes with settings of their own. Their tests bear the mark of a grade, so that it is built."""
    _must_be_possible(request.config, CONTROLLERS if settings.controllers else API_SERVER)
    users = (*OPERATORS, RECORDED)
    with (
        tempfile.TemporaryDirectory(prefix="windlass-") as folder,
        recorded_plane(Path(folder), settings, users) as plane,
    ):
        yield plane


@contextmanager
def recorded_plane(folder: Path, settings: Settings, users: Sequence[str]) -> Iterator[ControlPlane]:
    """A control plane below a folder, whose API server records the requests of these users for the session's report."""
    plane = cluster.start(folder / "plane", recorded(settings, folder, users))
    try:
        yield plane
    finally:
        plane.close()
        keep_calls(folder)


def _must_be_possible(config: pytest.Config, programs: Sequence[str]) -> None:
    if sys.platform != "linux":
        refuse("a control plane of our own needs Linux")
    if missing(programs) and (failed := config.stash.get(_FAILED, None)):
        refuse(failed)


def refuse(reason: str) -> None:
    """Skip the test; under CI fail it."""
    (pytest.fail if os.environ.get("CI") == "true" else pytest.skip)(reason)
