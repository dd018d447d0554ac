"""Jobs that another operator has run are taken over as their objects and pods show them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest
from reader_case import PYTORCH, ReaderCase
from test_job_reader import pytorch_job

from windlass.backends.kubernetes.client.objects import Pod
from windlass.backends.kubernetes.client.resources import named
from windlass.backends.kubernetes.cluster.job_resolution import ResolvedJob
from windlass.backends.kubernetes.cluster.lookups import ChangedNames
from windlass.backends.kubernetes.gangs.stored_state import FIELD
from windlass.backends.kubernetes.jobs.job_takeover import JobTakeover
from windlass.backends.kubernetes.jobs.train_job_sets import TrainJobSets
from windlass.backends.kubernetes.pods.launcher_jobs import LauncherJobs
from windlass.backends.kubernetes.pods.pod_store import PodStore
from windlass.backends.kubernetes.status.status_writer import status_of
from windlass.backends.port import JobArrived, JobEvent
from windlass.core.lifecycle.events import Resume, Suspend
from windlass.core.model.job import Job
from windlass.core.model.status import JobState, Phase, Placement
from windlass.jobs.kubernetes.parsed_job import ParsedJob

NOON = 1_767_268_800_000
CREATED, STARTED, ENDED = "2026-01-01T00:00:00Z", "2026-01-01T00:01:00Z", "2026-01-01T02:00:00Z"
ENDED_MS = 1_767_232_800_000
SPEC = {
    "pytorchReplicaSpecs": {
        role: {"replicas": count, "template": {"spec": {"containers": [{"name": "pytorch", "image": "x"}]}}}
        for role, count in (("Master", 1), ("Worker", 2))
    }
}


class TakeoverCase(ReaderCase):
    """A job reader that takes over jobs, with pods; nodes in `full` have no room."""

    def __post_init__(self) -> None:
        super().__post_init__()
        self.pods = PodStore(lambda _pod, _there: None)
        self.deleted: list[str] = []
        self.full: set[str] = set()
        nodes = SimpleNamespace(picture=SimpleNamespace(by_name=dict.fromkeys(("n1", "n2", "n3"))))
        monitor = SimpleNamespace(state=nodes, placements=SimpleNamespace(fits=self.fits))
        gang_pods = SimpleNamespace(pods=self.pods, launchers=LauncherJobs(self.pods))
        self.job_sets: dict[tuple[str, str], dict[str, Any]] = {}
        sets = TrainJobSets(lambda namespace, name: self.job_sets.get((namespace, name)))
        takeover = JobTakeover(sets, gang_pods, monitor, self.delete, lambda: NOON)  # type: ignore[arg-type]
        self.reader.left_by_others = takeover.status_of
        self.sets = sets

    def fits(self, _gang_id: str, _job: Job, _placement: Placement, node: str) -> bool:
        return node not in self.full

    def delete(self, pods: Iterable[Pod], _grace: int) -> None:
        self.deleted += [pod.metadata.name for pod in pods]

    def put(self, name: str, node: str = "", phase: str = "Running", labels: dict[str, str] | None = None) -> None:
        owner = {"uid": "u1", "controller": True, "kind": "PyTorchJob", "name": "digits"}
        about = {"name": name, "namespace": "ml", "uid": f"uid-{name}", "resourceVersion": "7", "labels": labels or {}}
        body = {"metadata": {**about, "ownerReferences": [owner]}, "spec": {"nodeName": node, "containers": []}}
        self.pods.learn(msgspec.convert({**body, "status": {"phase": phase}}, Pod))

    def take_over(self, *conditions: Any, run_policy: dict[str, Any] | None = None, **status: Any) -> list[JobState]:
        manifest = pytorch_job(version=1)
        manifest["metadata"]["creationTimestamp"] = CREATED
        manifest["spec"] = {**SPEC, "runPolicy": run_policy or {}}
        self.reader.update(PYTORCH, {**manifest, "status": {"conditions": list(conditions), **status}})
        return self.recover()

    def resolve_names(self, parsed: ParsedJob) -> ResolvedJob:
        return replace(super().resolve_names(parsed), trouble=self.sets.trouble(parsed))


def condition(kind: str, status: str = "True", **more: Any) -> dict[str, Any]:
    return {"type": kind, "status": status, "reason": f"PyTorchJob{kind}", "message": "", **more}


@pytest.mark.parametrize("end", [Phase.SUCCEEDED, Phase.FAILED])
def test_an_ended_job_stays_ended_and_its_time_to_live_counts_from_its_completion(end: Phase) -> None:
    case = TakeoverCase()
    policy = {"ttlSecondsAfterFinished": 600}
    conditions = condition("Running", "False"), condition(end.value)
    (state,) = case.take_over(*conditions, run_policy=policy, startTime=STARTED, completionTime=ENDED)
    assert (state.status.phase, state.status.finished_at, state.job.ttl) == (end, ENDED_MS, 600_000)
    assert case.take_events() == []
    (gang,) = case.store
    assert not gang.has_unwritten_state
    assert not gang.has_foreign_state


def test_an_end_before_other_conditions_is_written_as_the_last_one_which_tables_show() -> None:
    """mpi-operator adds the condition Running to a job that has ended before it saw that the job ran."""
    case = TakeoverCase()
    end = condition("Succeeded", lastTransitionTime=ENDED)
    (state,) = case.take_over(
        condition("Created"), end, condition("Running", "False"), run_policy={"ttlSecondsAfterFinished": 600}
    )
    (gang,) = case.store
    assert gang.has_unwritten_state
    status = status_of(gang, state.status, NOON)
    assert [each["type"] for each in status["conditions"]] == ["Created", "Running", "Succeeded"]
    assert end.items() <= status["conditions"][-1].items()


@pytest.mark.parametrize("written", [{}, {"completionTime": "soon"}, {"completionTime": "1970-01-01T00:00:01Z"}])
def test_an_end_without_a_plausible_time_counts_from_its_condition_or_from_the_takeover(written: dict) -> None:
    policy = {"ttlSecondsAfterFinished": 600}
    (state,) = TakeoverCase().take_over(condition("Succeeded"), run_policy=policy, **written)
    assert state.status.finished_at == NOON
    (state,) = TakeoverCase().take_over(condition("Succeeded", lastTransitionTime=ENDED), run_policy=policy, **written)
    assert state.status.finished_at == ENDED_MS


def test_a_job_with_two_different_ends_is_left_alone_and_its_owner_learns_why() -> None:
    case = TakeoverCase()
    assert case.take_over(condition("Succeeded"), condition("Failed")) == []
    assert case.take_events() == []
    assert list(case.store) == []
    (refusal,) = case.refused
    assert refusal.message.startswith("its status has both conditions Succeeded and Failed: set one of them to False")


GARBAGE = [None, "?", 7, [], {"type": 7}, {"type": "Succeeded"}, {"type": "Succeeded", "status": True}]


@pytest.mark.parametrize("found", GARBAGE, ids=str)
def test_a_condition_that_no_operator_writes_is_no_end(found: Any) -> None:
    case = TakeoverCase()
    assert case.take_over(found) == []
    assert [type(event) for event in case.take_events()] == [JobArrived]


def test_an_ended_job_stays_ended_although_its_spec_would_be_refused_today() -> None:
    case = TakeoverCase()
    faulty = {**pytorch_job(version=1), "spec": {"pytorchReplicaSpecs": "?"}}
    case.reader.update(PYTORCH, {**faulty, "status": {"conditions": [condition("Succeeded")]}})
    case.recover()
    assert (case.refused, case.take_events()) == ([], [])


def test_running_pods_become_generation_0_on_their_nodes() -> None:
    case = TakeoverCase()
    for name, node in (("digits-master-0", "n1"), ("digits-worker-0", "n2"), ("digits-worker-1", "n2")):
        case.put(name, node)
    (state,) = case.take_over(condition("Running"), startTime=STARTED)
    status = state.status
    assert (status.phase, status.generation, status.is_gone) == (Phase.RUNNING, 0, False)
    assert status.placement == Placement({"master": ("n1",), "worker": ("n2", "n2")})
    assert status.first_admitted_at == status.started_at == ENDED_MS - 119 * 60_000
    assert (case.deleted, case.take_events()) == ([], [])
    (gang,) = case.store
    assert gang.has_unwritten_state
    assert case.adopted == [gang]


def test_a_pod_without_a_node_is_replaced_on_the_first_node_with_room() -> None:
    case = TakeoverCase()
    case.full = {"n1", "n2"}
    case.put("digits-master-0", "n1")
    case.put("digits-worker-0", phase="Pending")
    (state,) = case.take_over(condition("Created"))
    assert state.status.placement == Placement({"master": ("n1",), "worker": ("n3", "n3")})
    assert case.deleted == ["digits-worker-0"]


@pytest.mark.parametrize(
    ("full", "expected"), [([], ("n1", "n2")), (["n2"], ("n1", "n1")), (["n1", "n2"], ("n1", "n3"))]
)
def test_a_failed_pod_restarts_where_there_is_room_while_the_others_go_on(full: list[str], expected: tuple) -> None:
    """Another pod may have its node since: the whole job would have to queue again."""
    case = TakeoverCase()
    case.full |= set(full)
    case.put("digits-master-0", "n1")
    case.put("digits-worker-0", "n1")
    case.put("digits-worker-1", "n2", phase="Failed")
    (state,) = case.take_over(condition("Running"), startTime=STARTED)
    assert state.status.placement == Placement({"master": ("n1",), "worker": expected})


def test_a_job_of_which_every_pod_has_failed_is_not_new() -> None:
    case = TakeoverCase()
    for name in ("master-0", "worker-0", "worker-1"):
        case.put(f"digits-{name}", "n2", phase="Failed")
    (state,) = case.take_over(condition("Running"), startTime=STARTED)
    assert (state.status.phase, state.status.reason) == (Phase.RUNNING, "TakenOver")
    assert state.status.placement == Placement({"master": ("n2",), "worker": ("n2", "n2")})


def test_a_pod_for_which_no_node_has_room_is_placed_where_it_cannot_start() -> None:
    case = TakeoverCase()
    case.full = {"n1", "n2", "n3"}
    case.put("digits-master-0", "n1")
    (state,) = case.take_over(condition("Running"))
    assert state.status.placement == Placement({"master": ("n1",), "worker": ("n1", "n1")})


def test_a_job_whose_pods_have_no_nodes_is_new_and_they_are_deleted() -> None:
    case = TakeoverCase()
    for name in ("digits-master-0", "digits-worker-0", "digits-worker-1"):
        case.put(name, phase="Pending")
    assert case.take_over(condition("Created")) == []
    assert [type(event) for event in case.take_events()] == [JobArrived]
    assert len(case.deleted) == 3


def test_a_job_that_is_said_to_run_and_has_no_pods_is_new() -> None:
    case = TakeoverCase()
    assert case.take_over(condition("Running"), startTime=STARTED) == []
    assert [type(event) for event in case.take_events()] == [JobArrived]


def test_a_suspended_job_stays_suspended_and_one_that_was_resumed_meanwhile_is_resumed() -> None:
    case = TakeoverCase()
    (state,) = case.take_over(condition("Suspended"), run_policy={"suspend": True})
    assert (state.status.phase, case.take_events()) == (Phase.SUSPENDED, [])
    case = TakeoverCase()
    case.take_over(condition("Suspended"))
    (event,) = case.take_events()
    assert isinstance(event, JobEvent)
    assert isinstance(event.event, Resume)


def test_a_running_job_that_was_suspended_meanwhile_is_suspended() -> None:
    case = TakeoverCase()
    case.put("digits-master-0", "n1")
    case.take_over(condition("Running"), run_policy={"suspend": True})
    (event,) = case.take_events()
    assert isinstance(event, JobEvent)
    assert isinstance(event.event, Suspend)


def test_a_job_of_a_kind_that_was_left_to_another_operator_is_taken_over_when_that_operator_is_gone() -> None:
    case = TakeoverCase()
    case.reader.leave_kinds(["PyTorchJob"])
    case.put("digits-master-0", "n1")
    assert case.take_over(condition("Running")) == []
    assert case.take_events() == []
    case.reader.leave_kinds([])
    (gang,) = case.adopted
    assert gang.status.phase is Phase.RUNNING


def test_an_adopted_state_is_written_with_its_placement_at_once() -> None:
    case = TakeoverCase()
    case.put("digits-master-0", "n1")
    case.take_over(condition("Running"))
    (gang,) = case.store
    assert gang.notes.needs_write
    assert gang.stored is not None
    assert FIELD not in gang.parsed.manifest["status"]
    written = gang.stored.followed_by(gang.status)
    assert (written.revision, written.placed) == (1, None)


TRAIN_JOBS = named("trainer.kubeflow.org/v1alpha1", "trainjobs", "TrainJob")


def train_job() -> dict[str, Any]:
    about = {**pytorch_job(version=1)["metadata"], "creationTimestamp": CREATED}
    spec = {"runtimeRef": {"name": "torch-distributed"}, "trainer": {"numNodes": 2, "image": "x"}}
    return {"apiVersion": TRAIN_JOBS.api_version, "kind": "TrainJob", "metadata": about, "spec": spec}


def job_set(*conditions: dict[str, Any], suspend: bool = False, owner: str = "u1") -> dict[str, Any]:
    about = {"namespace": "ml", "name": "digits", "ownerReferences": [{"uid": owner, "controller": True}]}
    return {"metadata": about, "spec": {"suspend": suspend}, "status": {"conditions": list(conditions)}}


@pytest.mark.parametrize(
    ("end", "phase", "shown"), [("Completed", Phase.SUCCEEDED, "Complete"), ("Failed", Phase.FAILED, "Failed")]
)
def test_a_train_job_waits_for_its_job_set_and_ends_with_it(end: str, phase: Phase, shown: str) -> None:
    case = TakeoverCase()
    case.job_sets["ml", "digits"] = job_set()
    case.reader.update(TRAIN_JOBS, train_job())
    assert case.recover() == []
    assert case.take_events() == []
    assert case.refused[0].message.startswith("its JobSet ml/digits, which another operator has created, goes on")
    case.job_sets["ml", "digits"] = job_set(condition(end, lastTransitionTime=ENDED))
    case.specs.resolve_again(ChangedNames())
    (gang,) = case.adopted
    assert (gang.status.phase, gang.status.finished_at) == (phase, ENDED_MS)
    assert gang.has_unwritten_state
    written = {each["type"] for each in status_of(gang, gang.status, NOON)["conditions"] if each["status"] == "True"}
    assert written == {shown}
    assert case.take_events() == []


def test_a_train_job_whose_job_set_was_deleted_is_new() -> None:
    case = TakeoverCase()
    case.job_sets["ml", "digits"] = job_set()
    case.reader.update(TRAIN_JOBS, train_job())
    case.recover()
    case.job_sets.clear()
    case.specs.resolve_again(ChangedNames())
    assert [type(event) for event in case.take_events()] == [JobArrived]


@pytest.mark.parametrize("found", [job_set(suspend=True), job_set(owner="another")])
def test_a_suspended_or_foreign_job_set_holds_up_no_train_job(found: dict[str, Any]) -> None:
    case = TakeoverCase()
    case.job_sets["ml", "digits"] = found
    case.reader.update(TRAIN_JOBS, train_job())
    case.recover()
    assert [type(event) for event in case.take_events()] == [JobArrived]
