"""Our operator does with manifests of Kubeflow's kinds as Kubeflow's operators were recorded to do.

`make test` plays the cases of CHOSEN; with WINDLASS_KUBEFLOW=all, as in `make soak-kubernetes`, all are played.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from operator_server import operator_server
from planes.fixtures import serve

import strays
from windlass.controlplane.cluster import ControlPlane, Settings
from windlass.deploy.operator import Setup

from .cases import cases
from .comparison import Difference, differences
from .differences import INTENDED
from .fields import WITHOUT_CASE, fields
from .guide import page
from .kinds import KINDS, Case
from .observation import Object
from .play import play
from .recordings import RECORDED

ALL = os.environ.get("WINDLASS_KUBEFLOW") == "all"
CHOSEN = ("succeeds", "clean-all", "clean-none", "worker-fails-never", "labels", "slots")
GUIDE = Path(__file__).parents[3] / "docs/guides/from-kubeflow.md"
WITHIN_S = strays.TIMEOUT_S * 3
"""The garbage collector of a cluster looks for new kinds every 30 seconds."""
SETTINGS = Settings(controllers=True, node_grace=600, eviction_after=300)


@pytest.fixture(scope="session")
def kubeflow_plane(request: pytest.FixtureRequest) -> Iterator[ControlPlane]:
    yield from serve(request, SETTINGS)


def found_after(case: Case, number: int, seen: Object) -> list[Difference]:
    """The differences after an action."""
    recorded = RECORDED[case.kind.label][case.name]
    theirs = recorded[number] if number < len(recorded) else None
    return list(differences(case.namespace, theirs, seen, str(number)))


def unexpected(found: list[Difference]) -> list[Difference]:
    """The differences that no row of the table names."""
    return [each for each in found if not any(row.covers(each) for row in INTENDED)]


def test_the_guide_shows_the_tables_of_these_cases() -> None:
    assert GUIDE.read_text() == page(GUIDE.read_text()), "write it anew: make docs"


def test_every_field_is_used_by_a_case_or_has_its_reason() -> None:
    unused = {(each.name, kind.label) for each in fields() for kind in each.kinds if kind.label not in each.cases}
    assert {name for name, _ in unused} == WITHOUT_CASE.keys()


def test_every_kind_has_forty_cases_each_with_a_recording() -> None:
    for kind in KINDS:
        names = {each.name for each in cases((kind,))}
        assert len(names) >= 40
        assert names == RECORDED[kind.label].keys()


@pytest.mark.controllers
@pytest.mark.timeout(3600 if ALL else 300)
def test_our_operator_does_what_kubeflows_operators_do(kubeflow_plane: ControlPlane, tmp_path: Path) -> None:
    wanted = [each for each in cases() if ALL or each.name in CHOSEN]

    async def whole() -> list[Difference]:
        found: list[Difference] = []
        async with kubeflow_plane.api() as api:
            played = play(
                api, wanted, quiet=WITHIN_S, is_expected=lambda *outcome: not unexpected(found_after(*outcome))
            )
            async for case, seen in played:
                found += [each for at, one in enumerate(seen) for each in found_after(case, at, one)]
        return found

    # the verdicts on failures are a condition and an Event of their own, which may come after an observation
    with operator_server(kubeflow_plane, tmp_path, Setup("windlass:1", mpijob_v1=True, diagnoses_at_once=0)):
        found = asyncio.run(whole())
    assert not unexpected(found), "\n".join(sorted(map(str, unexpected(found))))
    unneeded = [row.what for row in INTENDED if not row.is_late and not any(row.covers(each) for each in found)]
    assert not ALL or not unneeded
