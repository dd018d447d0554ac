"""From objects to jobs: who arrives, who is left alone, who must wait for a namesake."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

import pytest

from windlass.backends.kubernetes.client.resources import named
from windlass.backends.kubernetes.cluster.job_resolution import Fitted
from windlass.backends.kubernetes.cluster.lookups import ChangedNames
from windlass.backends.kubernetes.gangs import stored_state
from windlass.backends.kubernetes.gangs.gang import Gang
from windlass.backends.kubernetes.gangs.stored_state import Stored
from windlass.backends.kubernetes.jobs.job_store import CANCEL, JobStore
from windlass.backends.kubernetes.status.refusals import Refusal
from windlass.backends.kubernetes.status.state_writes import DeposedError
from windlass.backends.port import BackendEvent, JobArrived, JobChanged, JobEvent
from windlass.core.lifecycle.events import Cancel, Resume, Suspend
from windlass.core.model.status import Phase, Placement, Status
from windlass.jobs.kubernetes.parsed_job import ParsedJob
from windlass.jobs.kubernetes.settings import Settings

TRAINING = named("windlass.dev/v1alpha1", "trainingjobs", "TrainingJob")
PYTORCH = named("kubeflow.org/v1", "pytorchjobs", "PyTorchJob")


@dataclass
class Desk:
    """A roster, and what came of what it saw."""

    told: list[BackendEvent] = field(default_factory=list)
    refused: list[Refusal] = field(default_factory=list)
    changed: list[Gang] = field(default_factory=list)
    trouble: str = ""
    to_choose: tuple[str, ...] = ()
    near: dict[str, str] = field(default_factory=dict)
    """The node selector that volumes add."""

    def __post_init__(self) -> None:
        self.roster = JobStore(Settings(), self.fit, self.told.append, self.refused.append, self.changed.append)

    def fit(self, parsed: ParsedJob) -> Fitted:
        roles = tuple(replace(role, node_selector=self.near) for role in parsed.job.roles)
        return Fitted(replace(parsed.job, roles=roles), self.to_choose, self.trouble)

    def heard(self) -> list[BackendEvent]:
        told, self.told[:] = list(self.told), []
        return told


def training(
    name: str = "digits", uid: str = "u1", version: int = 1, generation: int = 1, **spec: Any
) -> dict[str, Any]:
    metadata = {
        "name": name,
        "namespace": "ml",
        "uid": uid,
        "resourceVersion": str(version),
        "generation": generation,
        "creationTimestamp": "2026-01-01T00:00:00Z",
    }
    spec = {"image": "x", "command": "python train.py", "nodes": 2, **spec}
    return {"apiVersion": "windlass.dev/v1alpha1", "kind": "TrainingJob", "metadata": metadata, "spec": spec}


def with_state(manifest: dict[str, Any], status: Status, number: int = 5) -> dict[str, Any]:
    return {**manifest, "status": {stored_state.FIELD: stored_state.written(Stored(number, 3, status))}}


def commit(gang: Gang, status: Status) -> None:
    gang.stored = Stored(gang.number, 1, status)


def test_an_object_becomes_a_job_once_somebody_controls() -> None:
    desk = Desk()
    desk.roster.see(TRAINING, training())
    assert desk.heard() == []
    assert desk.roster.recover() == []
    (arrived,) = desk.heard()
    assert isinstance(arrived, JobArrived)
    assert (arrived.job_id, arrived.number, arrived.job.members) == ("ml/digits", 1, 2)


def test_a_follower_keeps_up_with_what_the_leader_writes() -> None:
    desk = Desk()
    desk.roster.see(TRAINING, training())
    desk.roster.see(TRAINING, with_state(training(version=2), Status(phase=Phase.QUEUED, queued_at=7)))
    (state,) = desk.roster.recover()
    assert (state.number, state.status.queued_at) == (5, 7)
    desk.roster.see(TRAINING, training("other", "u2"))
    (arrived,) = desk.heard()
    assert isinstance(arrived, JobArrived)
    assert arrived.number == 6


def test_a_job_that_has_ended_is_not_started_again() -> None:
    desk = Desk()
    desk.roster.see(TRAINING, with_state(training(), Status(phase=Phase.SUCCEEDED, finished_at=9)))
    assert desk.roster.recover() == []
    assert desk.heard() == []
    gang = desk.roster.get("ml/digits")
    assert gang is not None
    assert gang.state.status.phase is Phase.SUCCEEDED


def test_a_state_that_comes_later_than_its_controller_ends_the_term() -> None:
    desk = Desk()
    desk.roster.recover()
    with pytest.raises(DeposedError, match="not known when this term began"):
        desk.roster.see(TRAINING, with_state(training(), Status(phase=Phase.QUEUED)))


def test_what_names_stand_for_may_be_listed_after_the_job() -> None:
    desk = Desk(trouble="there is no claim data")
    desk.roster.see(TRAINING, with_state(training(), Status(phase=Phase.QUEUED)))
    desk.trouble, desk.to_choose = "", ("data",)
    desk.roster.recover()
    gang = desk.roster.get("ml/digits")
    assert gang is not None
    assert gang.fit.to_choose == ("data",)


def test_what_is_wrong_is_told_once_for_each_version_of_the_spec() -> None:
    desk = Desk()
    desk.roster.recover()
    wrong = training(nodes=-1)
    desk.roster.see(TRAINING, wrong)
    desk.roster.see(TRAINING, {**wrong, "metadata": {**wrong["metadata"], "resourceVersion": "2"}})
    (refusal,) = desk.refused
    assert refusal.message.startswith("spec.nodes")
    assert refusal.state == "Failed"
    desk.roster.see(TRAINING, training(version=3, generation=2))
    assert [type(event) for event in desk.heard()] == [JobArrived]


def test_a_state_that_cannot_be_read_starts_nothing() -> None:
    desk = Desk()
    desk.roster.recover()
    desk.roster.see(TRAINING, {**training(), "status": {stored_state.FIELD: {"state": "?"}}})
    assert desk.heard() == []
    assert "was not written by Windlass" in desk.refused[0].message
    assert not desk.refused[0].state


def test_who_must_wait_for_something_in_the_cluster_comes_when_it_is_there() -> None:
    desk = Desk(trouble="there is no PersistentVolumeClaim data")
    desk.roster.recover()
    desk.roster.see(TRAINING, training())
    assert desk.heard() == []
    (told,) = desk.refused
    assert (told.message, told.reason, told.state) == ("there is no PersistentVolumeClaim data", "Waiting", "Created")
    gang = desk.roster.get("ml/digits")
    assert gang is not None
    made = 1_767_225_600_000  # 2026-01-01
    assert gang.status == Status(Phase.CREATED, "Waiting", told.message, created_at=made)
    assert told.stands()
    desk.trouble = ""
    desk.roster.look_around(ChangedNames())
    assert [type(event) for event in desk.heard()] == [JobArrived]
    assert not told.stands()


def test_who_waits_for_something_in_the_cluster_can_be_cancelled() -> None:
    desk = Desk(trouble="there is no PersistentVolumeClaim data")
    desk.roster.recover()
    desk.roster.see(TRAINING, training())
    ended = training(version=2)
    ended["metadata"]["annotations"] = {CANCEL: "ada"}
    desk.roster.see(TRAINING, ended)
    arrived, told = desk.heard()
    assert isinstance(arrived, JobArrived)
    assert isinstance(told, JobEvent)
    assert told.event == Cancel("ada")


def test_suspending_and_resuming_are_events_and_another_size_is_a_change() -> None:
    desk = Desk()
    desk.roster.recover()
    desk.roster.see(TRAINING, training())
    gang = desk.roster.get("ml/digits")
    assert gang is not None
    commit(gang, Status(phase=Phase.QUEUED))
    desk.heard()
    desk.roster.see(TRAINING, training(version=2, generation=2, suspend=True))
    desk.roster.see(TRAINING, training(version=3, generation=3, nodes=4))
    events = [event.event for event in desk.heard() if isinstance(event, JobEvent)]
    assert [type(event) for event in events] == [Suspend, Resume]
    assert gang.job.members == 4
    assert len(desk.changed) == 2


def test_a_gang_that_runs_is_another_one_only_after_it_has_stopped() -> None:
    desk = Desk()
    desk.roster.recover()
    desk.roster.see(TRAINING, training())
    gang = desk.roster.get("ml/digits")
    assert gang is not None
    running = Status(phase=Phase.RUNNING, generation=1, gone=False, placement=Placement({"worker": ("a", "b")}))
    commit(gang, running)
    desk.heard()
    desk.roster.see(TRAINING, training(version=2, generation=2, nodes=4))
    assert desk.heard() == []
    assert gang.job.members == 2
    commit(gang, replace(running, phase=Phase.QUEUED, placement=None, gone=True))
    desk.roster.catch_up(gang)
    (changed,) = desk.heard()
    assert isinstance(changed, JobChanged)
    assert changed.job.members == 4


def test_who_takes_over_holds_a_gang_to_the_size_it_runs_with() -> None:
    desk = Desk()
    running = Status(phase=Phase.RUNNING, generation=1, gone=False, placement=Placement({"worker": ("a", "b")}))
    desk.roster.see(TRAINING, with_state(training(nodes=4), running))
    (state,) = desk.roster.recover()
    assert state.job.members == 2


def test_the_next_start_is_near_the_volume_that_the_first_one_has_chosen() -> None:
    desk = Desk(to_choose=("data",))
    desk.roster.recover()
    desk.roster.see(TRAINING, training())
    gang = desk.roster.get("ml/digits")
    assert gang is not None
    commit(gang, Status(phase=Phase.RUNNING, generation=1, placement=Placement({"worker": ("n1", "n2")}), gone=False))
    desk.heard()
    desk.to_choose, desk.near = (), {"zone": "a"}
    desk.roster.look_around(ChangedNames())
    desk.roster.look_around(ChangedNames())
    (changed,) = desk.heard()
    assert gang.fit.to_choose == ()
    assert isinstance(changed, JobChanged)
    assert changed.job.roles[0].node_selector == {"zone": "a"}


def test_deleting_cancels_and_a_namesake_waits_for_the_end() -> None:
    desk = Desk()
    desk.roster.recover()
    desk.roster.see(TRAINING, training())
    gang = desk.roster.get("ml/digits")
    assert gang is not None
    commit(gang, Status(phase=Phase.QUEUED))
    desk.heard()
    desk.roster.lose("u1")
    desk.roster.see(TRAINING, training(uid="u2", version=9))
    assert desk.heard() == [JobEvent("ml/digits", Cancel("the deletion of its object"))]
    commit(gang, Status(phase=Phase.FAILED))
    desk.roster.close(gang)
    assert [type(event) for event in desk.heard()] == [JobArrived]


def test_an_annotation_cancels_in_somebodys_name() -> None:
    desk = Desk()
    desk.roster.recover()
    desk.roster.see(TRAINING, training())
    desk.heard()
    asked = training(version=2)
    asked["metadata"]["annotations"] = {CANCEL: "ada"}
    desk.roster.see(TRAINING, asked)
    desk.roster.see(TRAINING, {**asked, "metadata": {**asked["metadata"], "resourceVersion": "3"}})
    assert desk.heard() == [JobEvent("ml/digits", Cancel("ada"))]


def test_jobs_of_another_operator_are_left_alone_until_it_goes() -> None:
    desk = Desk()
    desk.roster.leave(["PyTorchJob"])
    desk.roster.recover()
    template = {"spec": {"containers": [{"name": "pytorch", "image": "x"}]}}
    metadata = {"name": "mnist", "namespace": "ml", "uid": "p1", "resourceVersion": "1", "generation": 1}
    spec = {"pytorchReplicaSpecs": {"Master": {"replicas": 1, "template": template}}}
    job = {"apiVersion": "kubeflow.org/v1", "kind": "PyTorchJob", "metadata": metadata, "spec": spec}
    desk.roster.see(PYTORCH, job)
    assert desk.heard() == []
    desk.roster.leave([])
    (arrived,) = desk.heard()
    assert isinstance(arrived, JobArrived)
    assert arrived.job_id == "ml/pytorchjob/mnist"


def test_a_label_of_the_namespace_changes_waiting_jobs_at_once() -> None:
    desk = Desk()
    desk.roster.see(TRAINING, training())
    desk.roster.recover()
    (gang,) = desk.roster
    commit(gang, Status(phase=Phase.QUEUED))
    desk.heard()
    desk.near = {"pool": "a"}  # stands for anything that a name resolves to
    desk.roster.look_around(ChangedNames(namespaces=frozenset({"other"})))
    assert desk.heard() == []
    desk.roster.look_around(ChangedNames(namespaces=frozenset({"ml"})))
    assert [type(event) for event in desk.heard()] == [JobChanged]
    desk.near = {"pool": "b"}
    desk.roster.look_around(ChangedNames(everywhere=True))
    assert [type(event) for event in desk.heard()] == [JobChanged]
    desk.roster.look_around(ChangedNames(everywhere=True))
    assert desk.heard() == []


def test_a_label_of_a_job_takes_effect_at_once() -> None:
    desk = Desk()
    desk.roster.see(PYTORCH, pytorch_job(version=1))
    desk.roster.recover()
    (gang,) = desk.roster
    commit(gang, Status(phase=Phase.QUEUED))
    desk.heard()
    desk.roster.see(PYTORCH, pytorch_job(version=2, labels={"windlass.dev/queue": "research"}))
    (changed,) = desk.heard()
    assert isinstance(changed, JobChanged)
    assert changed.job.queue == "research"


def pytorch_job(version: int, labels: dict[str, str] | None = None) -> dict[str, Any]:
    about = {"name": "digits", "namespace": "ml", "uid": "u1", "resourceVersion": str(version), "generation": 1}
    template = {"spec": {"containers": [{"name": "pytorch", "image": "x"}]}}
    spec = {"pytorchReplicaSpecs": {"Worker": {"replicas": 2, "template": template}}}
    metadata = about | ({"labels": labels} if labels else {})
    return {"apiVersion": "kubeflow.org/v1", "kind": "PyTorchJob", "metadata": metadata, "spec": spec}
