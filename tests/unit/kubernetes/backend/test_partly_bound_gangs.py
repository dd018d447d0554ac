"""External gangs that a leader takes over partly bound, and that cannot be completed as they were decided on."""

from __future__ import annotations

from typing import Any

import pytest
from recorded_api import Cluster, play

from windlass.backends.kubernetes.external import gang_gathering
from windlass.backends.kubernetes.external.binding_annotations import BindingDecision, decision_annotation
from windlass.core.model.status import Phase

REST = "ml/gang/g/g-1"
DECISION = BindingDecision("g", {"uid-g-0": "n1", "uid-g-1": "n2", "uid-g-2": "n3"})
JOB = {"apiVersion": "batch/v1", "kind": "Job", "name": "j", "uid": "uid-j", "controller": True}


@pytest.fixture(autouse=True)
def retries_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gang_gathering, "_BACKOFF_MS", 1)


def put_gang(on: Cluster, owners: list[dict[str, Any]], *others: str) -> None:
    """Pods of two GPUs each, as large as a node; the first one is bound, the others wait."""
    about = {"labels": {"windlass.dev/gang": "g"}, "ownerReferences": owners}
    size = {"windlass.dev/gang-size": str(1 + len(others))}
    decision = decision_annotation(DECISION, on.backend.settings.agents.secret_key)
    on.put_pod("g-0", 2, node="n1", scheduler="windlass", annotations={**size, **decision}, **about)
    for name in others:
        on.put_pod(name, 2, scheduler="windlass", annotations=size, **about)


def test_bound_pods_without_a_controller_stay_and_the_others_wait_for_room():
    async def story(on: Cluster) -> None:
        put_gang(on, [], "g-1")
        foreign = on.put_pod("theirs", 1, node="n2")
        await on.lead()
        await on.run(20)
        assert (on.api.deleted, on.api.bound) == ([], {})
        assert on.status(REST).phase is Phase.QUEUED
        assert "gpu" in on.controller.plan.verdicts[REST].message
        on.remove_pod(foreign)
        await on.run(20)
        assert (on.api.deleted, on.api.bound) == ([], {"g-1": "n2"})

    play(story, "n1", "n2")


def test_bound_pods_that_a_controller_creates_again_are_deleted():
    async def story(on: Cluster) -> None:
        put_gang(on, [JOB], "g-1")
        on.put_pod("theirs", 1, node="n2")
        await on.lead()
        await on.run(20)
        assert (on.api.deleted, on.api.bound) == (["g-0"], {})

    play(story, "n1", "n2")


@pytest.mark.parametrize(("owners", "deleted"), [([], []), ([JOB], ["g-0"])], ids=["bare", "of a controller"])
def test_a_gang_of_which_a_pod_was_replaced_is_deleted_only_if_its_controller_creates_it_again(owners, deleted):
    async def story(on: Cluster) -> None:
        put_gang(on, owners, "g-1", "replaces-g-2")
        await on.lead()
        await on.run(20)
        assert on.api.deleted == deleted
        assert on.api.bound == ({} if deleted else {"g-1": "n2", "replaces-g-2": "n3"})

    play(story, "n1", "n2", "n3")
