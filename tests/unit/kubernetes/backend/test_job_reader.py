"""Job objects become gangs: jobs that arrive, jobs left to other operators, jobs that wait for their predecessor."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from reader_case import PYTORCH, RUNNING, TRAINING, ReaderCase, commit, training, with_state

from windlass.backends.kubernetes.client.owners import OwnerKey
from windlass.backends.kubernetes.cluster.lookups import ChangedNames
from windlass.backends.kubernetes.gangs import readable_spec, stored_state
from windlass.backends.kubernetes.gangs.gang import Gang
from windlass.backends.kubernetes.gangs.stored_state import Stored
from windlass.backends.kubernetes.status.status_writer import status_of
from windlass.backends.port import JobArrived, JobChanged, JobEvent, JobRecovered
from windlass.core.lifecycle.events import Cancel, Resume, Suspend
from windlass.core.model.status import Phase, Placement, Status
from windlass.jobs.kubernetes.labels import CANCEL


def test_an_object_becomes_a_job_once_a_controller_leads() -> None:
    case = ReaderCase()
    case.reader.update(TRAINING, training())
    assert case.take_events() == []
    assert case.recover() == []
    (arrived,) = case.take_events()
    assert isinstance(arrived, JobArrived)
    assert (arrived.job_id, arrived.number, arrived.job.members) == ("ml/digits", 1, 2)


def test_a_follower_reads_the_states_that_the_leader_writes() -> None:
    case = ReaderCase()
    case.reader.update(TRAINING, training())
    case.reader.update(TRAINING, with_state(training(version=2), Status(phase=Phase.QUEUED, queued_at=7)))
    (state,) = case.recover()
    assert (state.number, state.status.queued_at) == (5, 7)
    case.reader.update(TRAINING, training("other", "u2"))
    (arrived,) = case.take_events()
    assert isinstance(arrived, JobArrived)
    assert arrived.number == 6


def test_a_job_that_has_ended_is_not_started_again() -> None:
    case = ReaderCase()
    case.reader.update(TRAINING, with_state(training(), Status(phase=Phase.SUCCEEDED, finished_at=9)))
    assert case.recover() == []
    assert case.take_events() == []
    gang = case.store.get("ml/digits")
    assert gang is not None
    assert gang.state.status.phase is Phase.SUCCEEDED


def test_a_job_whose_kind_is_served_only_since_the_term_began_is_taken_over_with_its_state() -> None:
    case = ReaderCase()
    case.recover()
    case.reader.update(TRAINING, with_state(training(), RUNNING))
    (gang,) = case.adopted
    assert (gang.state.status, case.take_events()) == (RUNNING, [])


FOREIGN = [
    {},
    None,
    "garbage",
    {"revision": "?"},
    {"revision": 2**62},
    stored_state.to_patch(Stored(7, 9, Status(phase=Phase.SUCCEEDED))),
    stored_state.to_patch(Stored(5, 3, Status(phase=Phase.SUCCEEDED))),
]


@pytest.mark.parametrize("foreign", FOREIGN, ids=str)
def test_a_state_that_another_writer_puts_into_the_object_of_a_job_changes_nothing_and_is_reported(
    foreign: Any,
) -> None:
    case = ReaderCase()
    replaced: list[Gang] = []
    case.reader.on_foreign_state = replaced.append
    case.reader.update(TRAINING, with_state(training(), RUNNING))
    case.recover()
    (gang,) = case.store
    case.reader.update(TRAINING, {**training(version=2), "status": {stored_state.FIELD: foreign}})
    assert replaced == [gang]
    assert (gang.state.status, gang.state.number, case.take_events()) == (RUNNING, 5, [])
    case.reader.update(TRAINING, with_state(training(version=3), RUNNING))
    assert replaced == [gang], "the state is as it was written"


def test_a_running_gang_survives_an_invalid_edit_and_the_next_leader() -> None:
    first = ReaderCase()
    first.reader.update(TRAINING, with_state(training(env={"A": "1"}), RUNNING))
    first.recover()
    invalid = with_state(training(version=2, generation=2, nodes=-1), RUNNING)
    first.reader.update(TRAINING, invalid)
    (gang,) = first.store
    assert gang in first.changed
    text = status_of(gang, gang.status, 0)[readable_spec.FIELD]
    second = ReaderCase()
    shown = {**invalid, "status": {**invalid["status"], readable_spec.FIELD: text}}
    second.reader.update(TRAINING, shown)
    (state,) = second.recover()
    assert (state.status, state.job.members) == (RUNNING, 2)
    (gang,) = second.store
    assert gang.parsed.manifest["spec"]["env"] == {"A": "1"}
    assert second.refused[0].message.endswith("; the job continues unchanged")
    cancelled = {**shown, "metadata": {**shown["metadata"], "resourceVersion": "3", "annotations": {CANCEL: "ada"}}}
    second.reader.update(TRAINING, cancelled)
    assert second.take_events() == [JobEvent("ml/digits", Cancel("ada"))]


def test_a_repaired_spec_is_applied_and_the_stored_one_is_removed() -> None:
    case = ReaderCase()
    case.reader.update(TRAINING, with_state(training(), RUNNING))
    case.recover()
    case.reader.update(TRAINING, with_state(training(version=2, generation=2, nodes=-1), RUNNING))
    (gang,) = case.store
    text = status_of(gang, gang.status, 0)[readable_spec.FIELD]
    repaired = with_state(training(version=3, generation=3, nodes=4), RUNNING)
    repaired["status"][readable_spec.FIELD] = text
    gang.notes.needs_write = False
    case.reader.update(TRAINING, repaired)
    assert gang.requested_spec is not None
    assert gang.requested_spec[1].members == 4
    assert gang.notes.needs_write
    assert status_of(gang, gang.status, 0)[readable_spec.FIELD] is None


def test_a_follower_keeps_the_spec_that_it_has_read_before_an_invalid_edit() -> None:
    case = ReaderCase()
    case.reader.update(TRAINING, with_state(training(), RUNNING))
    case.reader.update(TRAINING, with_state(training(version=2, generation=2, nodes=-1), RUNNING))
    case.reader.update(TRAINING, with_state(training(version=3, generation=2, nodes=-1), RUNNING))
    (state,) = case.recover()
    assert state.job.members == 2


def test_a_gang_that_no_leader_can_read_is_adopted_once_its_spec_is_repaired() -> None:
    case = ReaderCase()
    case.reader.update(TRAINING, with_state(training(nodes=-1), RUNNING))
    assert case.recover() == []
    case.reader.update(TRAINING, training("other", "u2"))
    (arrived,) = case.take_events()
    assert isinstance(arrived, JobArrived)
    assert arrived.number == 6
    case.reader.update(TRAINING, with_state(training(version=2, generation=2), RUNNING))
    (gang,) = case.adopted
    assert (gang.state.status, gang.state.number) == (RUNNING, 5)
    assert case.take_events() == []


@pytest.mark.parametrize("foreign", FOREIGN, ids=str)
def test_a_job_that_was_put_aside_continues_with_its_own_state_whatever_was_written_meanwhile(foreign: Any) -> None:
    case = ReaderCase()
    case.reader.update(TRAINING, with_state(training(nodes=-1), RUNNING))
    case.recover()
    written = {"status": {stored_state.FIELD: foreign}}
    case.reader.update(TRAINING, {**training(version=2, generation=1, nodes=-1), **written})
    case.reader.update(TRAINING, {**training(version=3, generation=2), **written})
    (gang,) = case.adopted
    assert (gang.state.status, gang.state.number) == (RUNNING, 5)
    assert not gang.takes_known_state(), "the next write replaces it"


def test_a_job_with_a_state_stays_ours_although_another_operator_was_installed() -> None:
    case = ReaderCase()
    case.reader.leave_kinds(["PyTorchJob"])
    case.reader.update(PYTORCH, with_state(pytorch_job(version=1), RUNNING))
    (state,) = case.recover()
    assert state.status == RUNNING
    case.reader.leave_kinds([])
    assert case.adopted == []


def test_a_job_of_another_manager_is_adopted_once_it_names_none() -> None:
    case = ReaderCase()
    others = with_state(pytorch_job(version=1), RUNNING)
    others["spec"]["runPolicy"] = {"managedBy": "kueue.x-k8s.io/multikueue"}
    case.reader.update(PYTORCH, others)
    assert case.recover() == []
    case.reader.update(PYTORCH, with_state(pytorch_job(version=2), RUNNING))
    (gang,) = case.adopted
    assert gang.state.status == RUNNING


def test_a_follower_reports_no_change_of_a_deleted_job() -> None:
    case = ReaderCase()
    case.reader.update(TRAINING, with_state(training(), RUNNING))
    case.reader.delete(OwnerKey("ml", "u1"))
    assert case.changed == []
    assert list(case.store) == []


@pytest.mark.parametrize("leads", [True, False])
def test_the_refusal_of_a_repaired_spec_is_not_written_any_more(leads: bool) -> None:
    case = ReaderCase()
    case.reader.update(TRAINING, with_state(training(), RUNNING))
    if leads:
        case.recover()
    case.reader.update(TRAINING, with_state(training(version=2, generation=2, nodes=-1), RUNNING))
    (refusal,) = case.refused
    assert refusal.stands()
    case.reader.update(TRAINING, with_state(training(version=3, generation=3), RUNNING))
    assert not refusal.stands()


def test_names_in_a_job_may_refer_to_objects_listed_after_it() -> None:
    case = ReaderCase(trouble="there is no claim data")
    case.reader.update(TRAINING, with_state(training(), Status(phase=Phase.QUEUED)))
    case.trouble, case.to_choose = "", ("data",)
    case.recover()
    gang = case.store.get("ml/digits")
    assert gang is not None
    assert gang.fit.to_choose == ("data",)


def test_a_fault_is_reported_once_for_each_version_of_the_spec() -> None:
    case = ReaderCase()
    case.recover()
    invalid = training(nodes=-1)
    case.reader.update(TRAINING, invalid)
    case.reader.update(TRAINING, {**invalid, "metadata": {**invalid["metadata"], "resourceVersion": "2"}})
    (refusal,) = case.refused
    assert refusal.message.startswith("spec.nodes")
    assert refusal.state == "Failed"
    case.reader.update(TRAINING, training(version=3, generation=2))
    assert [type(event) for event in case.take_events()] == [JobArrived]


def test_an_unreadable_state_starts_no_job() -> None:
    case = ReaderCase()
    case.recover()
    case.reader.update(TRAINING, {**training(), "status": {stored_state.FIELD: {"state": "?"}}})
    assert case.take_events() == []
    assert "was not written by Windlass" in case.refused[0].message
    assert not case.refused[0].state


def test_a_job_that_needs_a_missing_object_arrives_when_the_object_exists() -> None:
    case = ReaderCase(trouble="there is no PersistentVolumeClaim data")
    case.recover()
    case.reader.update(TRAINING, training())
    assert case.take_events() == []
    (refusal,) = case.refused
    assert (refusal.message, refusal.reason, refusal.state) == (
        "there is no PersistentVolumeClaim data",
        "Waiting",
        "Created",
    )
    gang = case.store.get("ml/digits")
    assert gang is not None
    created = 1_767_225_600_000  # 2026-01-01
    assert gang.status == Status(Phase.CREATED, "Waiting", refusal.message, created_at=created)
    assert refusal.stands()
    case.trouble = ""
    case.specs.resolve_again(ChangedNames())
    assert [type(event) for event in case.take_events()] == [JobArrived]
    assert not refusal.stands()


def test_a_job_that_needs_a_missing_object_can_be_cancelled() -> None:
    case = ReaderCase(trouble="there is no PersistentVolumeClaim data")
    case.recover()
    case.reader.update(TRAINING, training())
    ended = training(version=2)
    ended["metadata"]["annotations"] = {CANCEL: "ada"}
    case.reader.update(TRAINING, ended)
    arrived, cancelled = case.take_events()
    assert isinstance(arrived, JobArrived)
    assert isinstance(cancelled, JobEvent)
    assert cancelled.event == Cancel("ada")


def test_suspending_and_resuming_are_events_and_a_new_size_is_a_change() -> None:
    case = ReaderCase()
    case.recover()
    case.reader.update(TRAINING, training())
    gang = case.store.get("ml/digits")
    assert gang is not None
    commit(gang, Status(phase=Phase.QUEUED))
    case.take_events()
    case.reader.update(TRAINING, training(version=2, generation=2, suspend=True))
    case.reader.update(TRAINING, training(version=3, generation=3, nodes=4))
    events = [event.event for event in case.take_events() if isinstance(event, JobEvent)]
    assert [type(event) for event in events] == [Suspend, Resume]
    assert gang.job.members == 4
    assert len(case.changed) == 2


def test_a_running_gang_takes_a_new_spec_after_it_has_stopped() -> None:
    case = ReaderCase()
    case.recover()
    case.reader.update(TRAINING, training())
    gang = case.store.get("ml/digits")
    assert gang is not None
    running = Status(phase=Phase.RUNNING, generation=1, is_gone=False, placement=Placement({"worker": ("a", "b")}))
    commit(gang, running)
    case.take_events()
    case.reader.update(TRAINING, training(version=2, generation=2, nodes=4))
    assert case.take_events() == []
    assert gang.job.members == 2
    commit(gang, replace(running, phase=Phase.QUEUED, placement=None, is_gone=True))
    case.specs.apply_requested(gang)
    (changed,) = case.take_events()
    assert isinstance(changed, JobChanged)
    assert changed.job.members == 4


def test_a_time_to_live_that_is_set_after_the_end_is_reported() -> None:
    case = ReaderCase()
    case.recover()
    case.reader.update(TRAINING, training())
    gang = case.store.get("ml/digits")
    assert gang is not None
    case.take_events()
    ended = Status(phase=Phase.SUCCEEDED, finished_at=9)
    gang.decided = ended
    case.reader.update(TRAINING, training(version=2, generation=2, nodes=4, ttl="1m"))
    assert case.take_events() == []  # the controller may yet forget the job
    commit(gang, ended)
    gang.decided = None
    case.specs.apply_requested(gang)
    (recovered,) = case.take_events()
    assert isinstance(recovered, JobRecovered)
    assert (recovered.state.job.ttl, recovered.state.job.members, recovered.state.status) == (60_000, 2, ended)
    case.reader.update(TRAINING, training(version=3, generation=3, ttl="2m"))
    (changed,) = case.take_events()
    assert isinstance(changed, JobChanged)
    assert changed.job.ttl == 120_000


def test_a_new_leader_keeps_the_size_with_which_a_gang_runs() -> None:
    case = ReaderCase()
    running = Status(phase=Phase.RUNNING, generation=1, is_gone=False, placement=Placement({"worker": ("a", "b")}))
    case.reader.update(TRAINING, with_state(training(nodes=4), running))
    (state,) = case.recover()
    assert state.job.members == 2


def test_the_next_start_is_near_the_volume_that_the_first_start_provisioned() -> None:
    case = ReaderCase(to_choose=("data",))
    case.recover()
    case.reader.update(TRAINING, training())
    gang = case.store.get("ml/digits")
    assert gang is not None
    commit(
        gang, Status(phase=Phase.RUNNING, generation=1, placement=Placement({"worker": ("n1", "n2")}), is_gone=False)
    )
    case.take_events()
    case.to_choose, case.near = (), {"zone": "a"}
    case.specs.resolve_again(ChangedNames())
    case.specs.resolve_again(ChangedNames())
    (changed,) = case.take_events()
    assert gang.fit.to_choose == ()
    assert isinstance(changed, JobChanged)
    assert changed.job.roles[0].node_selector == {"zone": "a"}


def test_a_deleted_object_cancels_its_job_and_its_successor_waits_for_the_end() -> None:
    case = ReaderCase()
    case.recover()
    case.reader.update(TRAINING, training())
    gang = case.store.get("ml/digits")
    assert gang is not None
    commit(gang, Status(phase=Phase.QUEUED))
    case.take_events()
    case.reader.delete(OwnerKey("ml", "u1"))
    case.reader.update(TRAINING, training(uid="u2", version=9))
    assert case.take_events() == [JobEvent("ml/digits", Cancel("the deletion of its object"))]
    commit(gang, Status(phase=Phase.FAILED))
    case.reader.close(gang)
    assert [type(event) for event in case.take_events()] == [JobArrived]


def test_an_annotation_cancels_a_job_in_the_name_of_its_user() -> None:
    case = ReaderCase()
    case.recover()
    case.reader.update(TRAINING, training())
    case.take_events()
    cancelled = training(version=2)
    cancelled["metadata"]["annotations"] = {CANCEL: "ada"}
    case.reader.update(TRAINING, cancelled)
    case.reader.update(TRAINING, {**cancelled, "metadata": {**cancelled["metadata"], "resourceVersion": "3"}})
    assert case.take_events() == [JobEvent("ml/digits", Cancel("ada"))]


def test_jobs_of_another_operator_are_ignored_until_it_leaves() -> None:
    case = ReaderCase()
    case.reader.leave_kinds(["PyTorchJob"])
    case.recover()
    template = {"spec": {"containers": [{"name": "pytorch", "image": "x"}]}}
    metadata = {"name": "mnist", "namespace": "ml", "uid": "p1", "resourceVersion": "1", "generation": 1}
    spec = {"pytorchReplicaSpecs": {"Master": {"replicas": 1, "template": template}}}
    job = {"apiVersion": "kubeflow.org/v1", "kind": "PyTorchJob", "metadata": metadata, "spec": spec}
    case.reader.update(PYTORCH, job)
    assert case.take_events() == []
    case.reader.leave_kinds([])
    (arrived,) = case.take_events()
    assert isinstance(arrived, JobArrived)
    assert arrived.job_id == "ml/pytorchjob/mnist"


def test_a_label_of_the_namespace_changes_waiting_jobs_at_once() -> None:
    case = ReaderCase()
    case.reader.update(TRAINING, training())
    case.recover()
    (gang,) = case.store
    commit(gang, Status(phase=Phase.QUEUED))
    case.take_events()
    case.near = {"pool": "a"}  # stands for anything that a name resolves to
    case.specs.resolve_again(ChangedNames(namespaces=frozenset({"other"})))
    assert case.take_events() == []
    case.specs.resolve_again(ChangedNames(namespaces=frozenset({"ml"})))
    assert [type(event) for event in case.take_events()] == [JobChanged]
    case.near = {"pool": "b"}
    case.specs.resolve_again(ChangedNames(everywhere=True))
    assert [type(event) for event in case.take_events()] == [JobChanged]
    case.specs.resolve_again(ChangedNames(everywhere=True))
    assert case.take_events() == []


def test_a_label_of_a_job_takes_effect_at_once() -> None:
    case = ReaderCase()
    case.reader.update(PYTORCH, pytorch_job(version=1))
    case.recover()
    (gang,) = case.store
    commit(gang, Status(phase=Phase.QUEUED))
    case.take_events()
    case.reader.update(PYTORCH, pytorch_job(version=2, labels={"windlass.dev/queue": "research"}))
    (changed,) = case.take_events()
    assert isinstance(changed, JobChanged)
    assert changed.job.queue == "research"


def pytorch_job(version: int, labels: dict[str, str] | None = None) -> dict[str, Any]:
    about = {"name": "digits", "namespace": "ml", "uid": "u1", "resourceVersion": str(version), "generation": 1}
    template = {"spec": {"containers": [{"name": "pytorch", "image": "x"}]}}
    spec = {"pytorchReplicaSpecs": {"Worker": {"replicas": 2, "template": template}}}
    metadata = about | ({"labels": labels} if labels else {})
    return {"apiVersion": "kubeflow.org/v1", "kind": "PyTorchJob", "metadata": metadata, "spec": spec}
