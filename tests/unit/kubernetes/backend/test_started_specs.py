"""A gang that holds nodes keeps the spec with which it was started, under every leader."""

from __future__ import annotations

from dataclasses import replace

from judged_pods import pytorch
from member_stage import Stage
from reader_case import RUNNING, TRAINING, ReaderCase, commit, training, with_state

from windlass.backends.kubernetes.cluster.lookups import ChangedNames
from windlass.backends.kubernetes.gangs import readable_spec
from windlass.backends.kubernetes.gangs.gang import Gang
from windlass.backends.kubernetes.gangs.spec_condition import SPEC_APPLIED, spec_condition
from windlass.backends.kubernetes.status.status_writer import status_of
from windlass.backends.port import JobChanged
from windlass.core.model.status import Phase, Placement, Status


def test_a_new_leader_keeps_the_spec_with_which_a_gang_runs() -> None:
    first, changed = ReaderCase(), training(version=2, generation=2, gpus=0, queue="b", env={"A": "2"})
    first.reader.update(TRAINING, with_state(training(gpus=1, queue="a", env={"A": "1"}), RUNNING))
    first.recover()
    (gang,) = first.store
    started = gang.job
    first.reader.update(TRAINING, with_state(changed, RUNNING))
    assert gang in first.changed
    status = {**with_state(changed, RUNNING)["status"], **status_of(gang, gang.status, 0)}
    second = ReaderCase()
    second.reader.update(TRAINING, {**changed, "status": status})
    (state,) = second.recover()
    (gang,) = second.store
    assert (gang.job, state.job, started.queue) == (started, started, "a")
    assert gang.parsed.manifest["spec"]["env"] == {"A": "1"}, "its pods are created as it was started"
    assert second.take_events() == []
    commit(gang, replace(RUNNING, phase=Phase.QUEUED, placement=None, is_gone=True))
    second.specs.apply_requested(gang)
    (event,) = second.take_events()
    assert isinstance(event, JobChanged)
    assert (event.job.queue, event.job.roles[0].resources.get("gpu", 0)) == ("b", 0)
    assert status_of(gang, gang.status, 0)[readable_spec.STARTED_FIELD] is None


def test_a_job_whose_changed_spec_waits_says_so() -> None:
    case = ReaderCase()
    case.reader.update(TRAINING, with_state(training(gpus=1), RUNNING))
    case.recover()
    (gang,) = case.store
    case.reader.update(TRAINING, training(version=2, generation=2, gpus=0))
    (found,) = (each for each in status_of(gang, gang.status, 0)["conditions"] if each["type"] == SPEC_APPLIED)
    assert (found["status"], found["reason"], gang.notes.needs_write) == ("False", "AtNextStart", True)
    case.reader.update(TRAINING, training(version=3, generation=3, gpus=1))
    assert SPEC_APPLIED not in str(status_of(gang, gang.status, 0))


def elastic_gang(**marks: str) -> Gang:
    """A PyTorchJob that requests two workers."""
    manifest = pytorch(elastic=True, workers_alone=True)
    worker = manifest["spec"]["pytorchReplicaSpecs"]["Worker"]
    worker["template"]["spec"]["containers"][0]["command"] = ["python", "train.py"]
    manifest["metadata"] = {**manifest["metadata"], "annotations": marks}
    return Stage(manifest).gang


def test_an_elastic_gang_that_restarts_whole_says_that_the_scheduler_sizes_it() -> None:
    gang = elastic_gang(**{"windlass.dev/restart-mode": "gang"})
    assert spec_condition(gang, gang.status) is None
    found = spec_condition(gang, replace(gang.status, placement=Placement({"worker": ("n1",) * 4})))
    assert found is not None
    assert found["reason"] == "SizedByScheduler"
    assert "4 replicas of worker, not 2" in found["message"]


def test_only_gangs_whose_members_can_meet_new_ones_are_scaled_while_they_run() -> None:
    alone, agents = elastic_gang(), elastic_gang(**{"windlass.dev/agent": "inject"})
    assert [gang.job.roles[0].scales_in_place for gang in (alone, agents)] == [True, False]


def test_a_gang_takes_no_spec_that_its_undecided_start_does_not_take() -> None:
    case = ReaderCase()
    case.reader.update(TRAINING, with_state(training(gpus=1), Status(phase=Phase.QUEUED)))
    case.recover()
    (gang,) = case.store
    gang.decided = replace(RUNNING, phase=Phase.ADMITTED)  # its commit is under way
    case.reader.update(TRAINING, training(version=2, generation=2, gpus=0))
    assert (case.take_events(), gang.job.roles[0].resources["gpu"]) == ([], 1)


def test_a_running_gang_leaves_a_denied_queue_although_another_change_waits() -> None:
    case = ReaderCase()
    case.reader.update(TRAINING, with_state(training(gpus=1, queue="a"), RUNNING))
    case.recover()
    (gang,) = case.store
    case.reader.update(TRAINING, training(version=2, generation=2, gpus=0, queue="a"))
    assert case.take_events() == []
    case.denied = "a"
    case.specs.resolve_again(ChangedNames(everywhere=True))
    (event,) = case.take_events()
    assert isinstance(event, JobChanged)
    assert (event.job.queue, event.job.roles[0].resources["gpu"], event.by_cluster) == ("default", 1, True)
    assert gang.job == event.job


def test_the_status_names_the_queue_of_a_job_that_names_none() -> None:
    case = ReaderCase()
    case.reader.update(TRAINING, with_state(training(gpus=1), RUNNING))
    case.recover()
    (gang,) = case.store
    assert status_of(gang, gang.status, 0)["queue"] == gang.job.queue != ""
