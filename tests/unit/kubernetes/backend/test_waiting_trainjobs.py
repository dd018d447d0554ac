"""TrainJobs with a fault have a condition Failed; those whose runtime is missing go on when it is created."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from windlass.backends.kubernetes.client.object_cache import Change
from windlass.backends.kubernetes.client.owners import OwnerKey
from windlass.backends.kubernetes.client.resources import named
from windlass.backends.kubernetes.cluster.job_resolution import ResolvedJob
from windlass.backends.kubernetes.cluster.lookups import ClusterLookups
from windlass.backends.kubernetes.gangs import stored_state
from windlass.backends.kubernetes.gangs.stored_state import Stored
from windlass.backends.kubernetes.jobs.job_reader import JobReader
from windlass.backends.kubernetes.jobs.job_reports import JobReports
from windlass.backends.kubernetes.jobs.job_specs import JobSpecs
from windlass.backends.kubernetes.jobs.job_store import JobStore
from windlass.backends.kubernetes.status.refusals import Refusal
from windlass.backends.kubernetes.status.status_writer import status_of
from windlass.backends.port import BackendEvent, JobArrived
from windlass.core.model.status import JobState, Phase, Placement, Status
from windlass.jobs.kubernetes.labels import CANCEL
from windlass.jobs.kubernetes.settings import Settings
from windlass.jobs.kubernetes.status.foreign_status import read_end
from windlass.jobs.kubernetes.train_runtimes import FIELD, built_in

TRAINJOB = named("trainer.kubeflow.org/v1alpha1", "trainjobs", "TrainJob")
KIND = "ClusterTrainingRuntime"


class RuntimeCase:
    """A reader of jobs that looks runtimes up in a cluster."""

    def __init__(self, *, leads: bool = True) -> None:
        self.events: list[BackendEvent] = []
        self.refused: list[Refusal] = []
        self.lookups = ClusterLookups(lambda: None, tuple, dict)
        self.store = JobStore()
        reports = JobReports(self.events.append, self.refused.append, self.store.allocate_number)
        specs = JobSpecs(
            self.store, reports, lambda parsed: ResolvedJob(parsed.job), self.events.append, lambda _gang: None
        )
        self.reader = JobReader(self.store, specs, reports, Settings(runtimes=self.lookups.runtime), lambda _gang: None)
        self.reader.left_by_others = lambda gang: read_end(gang.parsed, 0)
        self.lookups.on_runtimes = self.reader.read_waiting
        if leads:
            self.lead()

    def lead(self) -> list[JobState]:
        return [*self.reader.recover(), *self.reader.begin(lambda _gang: None)]

    def see_runtime(self, nodes: int, *, name: str = "torch-distributed", policy: str = "torch") -> None:
        runtime = copy.deepcopy(built_in(KIND, "", "torch-distributed"))
        assert runtime is not None
        runtime["metadata"]["name"] = name
        runtime["spec"]["mlPolicy"] = {"numNodes": nodes, policy: {}}
        self.lookups.see_runtimes(KIND, [Change("modified", runtime)])

    @property
    def sizes(self) -> list[int]:
        return [event.job.members for event in self.events if isinstance(event, JobArrived)]


def trainjob(version: int = 1, **metadata: Any) -> dict[str, Any]:
    about = {"name": "digits", "namespace": "ml", "uid": "u1", "resourceVersion": str(version), "generation": 1}
    spec = {"runtimeRef": {"name": "torch-distributed"}}
    return {"apiVersion": TRAINJOB.api_version, "kind": "TrainJob", "metadata": {**about, **metadata}, "spec": spec}


def test_a_job_waits_for_its_runtime_and_arrives_with_it() -> None:
    case = RuntimeCase()
    case.reader.update(TRAINJOB, trainjob())
    (refusal,) = case.refused
    assert (refusal.reason, refusal.state, refusal.end) == ("Waiting", "Created", "TrainingRuntimeNotFound")
    assert "there is no ClusterTrainingRuntime 'torch-distributed'" in refusal.message
    case.see_runtime(5, name="another")
    assert case.sizes == []
    case.see_runtime(3)
    assert (case.sizes, refusal.stands()) == ([3], False)


def test_a_follower_knows_a_job_whose_runtime_is_listed_after_it() -> None:
    case = RuntimeCase(leads=False)
    case.reader.update(TRAINJOB, trainjob())
    case.see_runtime(2)
    assert case.sizes == []
    case.lead()
    assert case.sizes == [2]
    assert not any(each.stands() for each in case.refused)


def test_a_deleted_job_waits_no_more() -> None:
    case = RuntimeCase()
    case.reader.update(TRAINJOB, trainjob())
    case.reader.delete(OwnerKey("ml", "u1"))
    case.see_runtime(3)
    assert case.sizes == []


def test_a_job_that_waits_can_be_cancelled() -> None:
    case = RuntimeCase()
    case.reader.update(TRAINJOB, trainjob())
    case.reader.update(TRAINJOB, trainjob(2, annotations={CANCEL: "ada"}))
    assert [each.state for each in case.refused] == ["Created", "Failed"]
    assert {each.end for each in case.refused} == {"TrainingRuntimeNotFound"}


def test_a_job_of_a_runtime_that_cannot_be_used_has_failed() -> None:
    case = RuntimeCase()
    case.see_runtime(3, policy="flux")
    case.reader.update(TRAINJOB, trainjob())
    (refusal,) = case.refused
    assert (refusal.reason, refusal.state, refusal.end) == ("Invalid", "Failed", "TrainingRuntimeNotSupported")


def refused_status(refusal: Refusal) -> dict[str, Any]:
    """The status that a refusal writes."""
    both = {"message": refusal.message, "lastTransitionTime": "2026-01-01T00:00:00Z"}
    accepted = {"type": "Accepted", "status": "False", "reason": refusal.reason, **both}
    failed = {"type": "Failed", "status": "True", "reason": refusal.end, **both}
    return {"conditions": [accepted, failed] if refusal.end else [accepted], "state": refusal.state}


@pytest.mark.parametrize(
    "fault",
    [
        {"trainer": {"numNodes": "three"}},
        {"podTemplateOverrides": [{"targetJobs": [{"name": "nodes"}], "spec": {}}]},
        {"runtimeRef": {"name": "torch-distributed", "kind": "Deployment"}},
    ],
)
def test_a_trainjob_with_a_fault_has_failed_and_goes_on_when_it_is_repaired(fault: dict[str, Any]) -> None:
    case = RuntimeCase()
    case.see_runtime(3)
    faulty = {**trainjob(), "spec": {**trainjob()["spec"], **fault}}
    case.reader.update(TRAINJOB, faulty)
    (refusal,) = case.refused
    assert refusal.end in ("Invalid", "TrainingRuntimeNotSupported")
    case.reader.update(TRAINJOB, {**faulty, "status": refused_status(refusal)})
    case.reader.update(TRAINJOB, {**trainjob(2, generation=2), "status": refused_status(refusal)})
    assert case.sizes == [3]


def test_a_new_leader_goes_on_with_a_job_that_failed_for_its_missing_runtime() -> None:
    first = RuntimeCase()
    first.reader.update(TRAINJOB, trainjob())
    (refusal,) = first.refused
    second = RuntimeCase()
    second.reader.update(TRAINJOB, {**trainjob(2), "status": refused_status(refusal)})
    assert second.sizes == []
    second.see_runtime(4)
    assert second.sizes == [4]
    (gang,) = second.store
    conditions = status_of(gang, Status(phase=Phase.QUEUED), 0)["conditions"]
    assert [each["type"] for each in conditions] == ["Queued"]


def test_the_failure_that_the_trainer_has_written_stays() -> None:
    case = RuntimeCase()
    failed = {"type": "Failed", "status": "True", "reason": "FailedJobs", "message": "a job has failed"}
    case.reader.update(TRAINJOB, {**trainjob(), "status": {"conditions": [failed]}})
    assert case.refused == []


@pytest.mark.parametrize("found", ["edited", "deleted"])
def test_a_new_leader_takes_the_runtime_with_which_the_job_arrived(found: str) -> None:
    first = RuntimeCase()
    first.see_runtime(3)
    first.reader.update(TRAINJOB, trainjob())
    (gang,) = first.store
    status = Status(phase=Phase.RUNNING, generation=1, is_gone=False, placement=Placement({"node": ("a", "b", "c")}))
    shown = {FIELD: status_of(gang, status, 0)[FIELD], stored_state.FIELD: stored_state.to_patch(Stored(1, 3, status))}
    second = RuntimeCase(leads=False)
    if found == "edited":
        second.see_runtime(9)
    second.reader.update(TRAINJOB, {**trainjob(2), "status": shown})
    (state,) = second.lead()
    assert state.job.members == 3
    second.see_runtime(9)
    (gang,) = second.store
    assert gang.job.members == 3
