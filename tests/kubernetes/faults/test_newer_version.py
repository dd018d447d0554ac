"""Objects of a later version of Windlass, with an unknown field in spec and in status."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from planes.background import Background

from windlass.controlplane.cluster import ControlPlane

from . import jobs
from .conftest import Play
from .fault_scenario import FaultScenario

DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
LATER = {"type": "string"}


@contextmanager
def later_definition(plane: ControlPlane, name: str) -> Iterator[None]:
    """Defines `spec.later` and `status.later`, as an upgrade does."""
    path = f"{DEFINITIONS}/{name}"
    with Background() as there:
        api = there.enter(plane.api())
        before = there.do(api.get(path))["spec"]["versions"]
        after = copy.deepcopy(before)
        for part in ("spec", "status"):
            after[0]["schema"]["openAPIV3Schema"]["properties"][part]["properties"]["later"] = LATER
        there.do(api.patch(path, {"spec": {"versions": after}}))
        try:
            yield
        finally:
            there.do(api.patch(path, {"spec": {"versions": before}}))


def with_later(manifest: dict[str, Any]) -> dict[str, Any]:
    return {**manifest, "spec": {**manifest["spec"], "later": "on"}}


@pytest.mark.parametrize(
    ("path", "made"),
    [
        (jobs.TRAININGJOBS, jobs.training_job("newer", 2)),
        (jobs.PYTORCHJOBS, jobs.pytorch_job("newer", 2)),
    ],
    ids=["TrainingJob", "PyTorchJob"],
)
def test_an_object_of_a_newer_version_is_run_or_refused_and_keeps_its_fields(
    plane: ControlPlane, play: Play, path: str, made: dict[str, Any]
) -> None:
    async def scenario(on: FaultScenario) -> None:
        await on.replicas.start()
        await on.replicas.leader()

        async def known() -> bool:  # the new definition takes effect after a moment
            there = await on.api.post(jobs.path(made), with_later(made), dryRun="All")
            return "later" in there["spec"]

        await on.until(known, "the later definition")
        await on.make(with_later(made))
        await on.until_phase("Running", "newer")
        place = f"{jobs.path(made)}/newer"
        await on.api.patch(f"{place}/status", {"status": {"later": "of the later one"}})
        await on.replicas.start()
        on.replicas.kill(await on.replicas.leader())
        await on.replicas.leader()
        await on.kubelets.end(jobs.NAMESPACE, f"newer-{FIRST[made['kind']]}-0")
        await on.kubelets.end(jobs.NAMESPACE, f"newer-worker-{made['kind'] == 'TrainingJob':d}")
        await on.until_phase("Succeeded", "newer")
        there = await on.job("newer", path)
        assert (there["spec"]["later"], there["status"]["later"]) == ("on", "of the later one")

    with later_definition(plane, f"{path.rpartition('/')[2]}.{path.split('/')[2]}"):
        play(plane, scenario)


FIRST = {"TrainingJob": "worker", "PyTorchJob": "master"}
