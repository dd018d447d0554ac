"""Pods of a run: the member of each pod, and the events that follow from the states of pods."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import msgspec
import pytest

from windlass.backends.kubernetes.client.object_cache import ObjectRevision
from windlass.backends.kubernetes.client.object_reference import reference_to
from windlass.backends.kubernetes.client.objects import Pod
from windlass.backends.kubernetes.client.owners import OwnerKey
from windlass.backends.kubernetes.client.resources import named
from windlass.backends.kubernetes.gangs.gang import Gang
from windlass.backends.kubernetes.gangs.run import Run, Slot, slots
from windlass.backends.kubernetes.pods import pod_ends
from windlass.backends.kubernetes.pods.gang_pods import GangPods
from windlass.backends.kubernetes.pods.launcher_jobs import LauncherJobs
from windlass.backends.kubernetes.pods.pod_store import PodStore
from windlass.core.lifecycle.events import Event, Exit, GangGone, MemberExited, MemberStarted, Started
from windlass.core.model.job import Job, Role
from windlass.core.model.status import Placement
from windlass.jobs.kubernetes.kinds import registry
from windlass.jobs.kubernetes.labels import GENERATION
from windlass.jobs.kubernetes.parsed_job import ParsedJob
from windlass.jobs.kubernetes.pods.pod_assembly import JOB_ROLE
from windlass.jobs.kubernetes.settings import Settings

TRAINING = named("windlass.dev/v1alpha1", "trainingjobs", "TrainingJob")
MPI = named("kubeflow.org/v2beta1", "mpijobs", "MPIJob")
NOON = 1_767_268_800_000


def manifest(members: int) -> dict[str, Any]:
    about = {"name": "digits", "namespace": "ml", "uid": "u", "resourceVersion": "1", "generation": 1}
    spec = {"image": "x", "command": "python train.py", "nodes": members}
    return {"apiVersion": "windlass.dev/v1alpha1", "kind": "TrainingJob", "metadata": about, "spec": spec}


def mpi_manifest() -> dict[str, Any]:
    template = {"spec": {"containers": [{"name": "main", "image": "x", "command": ["mpirun"]}]}}
    replicas = {"Launcher": {"replicas": 1, "template": template}, "Worker": {"replicas": 2, "template": template}}
    about = {"name": "digits", "namespace": "ml", "uid": "u", "resourceVersion": "1", "generation": 1}
    spec = {"slotsPerWorker": 1, "mpiReplicaSpecs": replicas}
    return {"apiVersion": "kubeflow.org/v2beta1", "kind": "MPIJob", "metadata": about, "spec": spec}


@dataclass
class Place:
    """A gang, its run, and the pods of the test."""

    members: int = 2
    dead: set[str] = field(default_factory=set)
    options: dict[str, Any] = field(default_factory=dict)
    mpi: bool = False
    versions: int = 1

    def __post_init__(self) -> None:
        written = mpi_manifest() if self.mpi else manifest(self.members)
        parsed = registry.read(written, Settings())
        assert isinstance(parsed, ParsedJob)
        self.gang = Gang(reference_to(MPI if self.mpi else TRAINING, written), parsed, parsed.job, 1)
        nodes = {role.name: tuple(f"n{n}" for n in range(role.replicas)) for role in parsed.job.roles}
        settings = {"settling": 0} | self.options
        self.run = Run(1, slots(parsed.job, Placement(nodes)), **settings)
        self.gang.run = self.run
        names = self.gang.pod_names(self.run)
        self.run.made_by_others = frozenset(range(len(self.run.slots))).difference(names.values())
        self.names = {number: name for name, number in names.items()}
        self.pods = PodStore(self._see)
        self.launchers = LauncherJobs(self.pods)
        self.observer = GangPods(self.pods, self.launchers, self.dead.__contains__, lambda: NOON, 60_000)
        self.now = 0

    def _see(self, pod: Pod, there: bool) -> None:
        self.observer.see(self.gang, self.run, pod, there=there)

    def pod(self, number: int, phase: str = "Pending", **more: Any) -> None:
        """Sets the pod of a member."""
        self.named(self.names[number], phase, node=self.run.slots[number].node, **more)

    def named(self, name: str, phase: str, *, owner: str = "u", node: str = "n0", **more: Any) -> None:
        self.versions += 1
        labels = {GENERATION: str(more.pop("generation", 1)), JOB_ROLE: more.pop("role", "")}
        uid = more.pop("uid", f"uid-{name}")
        about = {"name": name, "namespace": "ml", "uid": uid, "resourceVersion": str(self.versions)}
        about |= {"labels": labels, "ownerReferences": [{"uid": owner, "controller": True, "kind": "x", "name": "x"}]}
        mark = {"deletionTimestamp": "2026-01-01T12:00:00Z", "deletionGracePeriodSeconds": 30}
        about |= mark if more.pop("deleted", False) else {}
        state = {"terminated": {"exitCode": more.pop("code", 0), "finishedAt": more.pop("at", None)}}
        ends = [{"name": "main", "state": state}] if phase in ("Succeeded", "Failed") else []
        status = {"phase": phase, "containerStatuses": ends, **more}
        self.pods.learn(msgspec.convert({"metadata": about, "spec": {"nodeName": node}, "status": status}, Pod))

    def all(self, phase: str, **more: Any) -> None:
        for number in self.names:
            self.pod(number, phase, **more)

    def remove(self, name: str) -> None:
        found = self.pods.fresh.objects[("ml", name)]
        self.versions += 1
        self.pods.apply(self.pods.fresh.remove(ObjectRevision("ml", name, found.metadata.uid, self.versions)))

    def events(self, *, more_may_come: bool = False) -> list[Event]:
        return self.run.tracker.take_events(self.now, more_may_come=more_may_come)

    def ends(self) -> dict[int, Exit]:
        return {event.member: event.exit for event in self.events() if isinstance(event, MemberExited)}


def started(**more: Any) -> Place:
    place = Place(**more)
    place.run.launched = True
    place.all("Running")
    assert place.events() == [Started(1)]
    return place


def test_members_count_over_roles_in_the_order_of_ranks() -> None:
    job = Job("digits", (Role("master"), Role("worker", replicas=2)))
    found = slots(job, Placement({"master": ("a",), "worker": ("b", "c")}))
    assert found == (Slot(0, "master", 0, "a"), Slot(1, "worker", 0, "b"), Slot(2, "worker", 1, "c"))


def test_a_gang_has_started_when_all_of_it_runs() -> None:
    place = Place()
    place.pod(0, "Running")
    place.pod(1)
    assert place.events() == []
    place.pod(1, "Running")
    assert place.events() == [Started(1)]
    assert place.events() == []


def test_a_member_that_has_ended_quickly_has_started_as_well() -> None:
    place = Place()
    place.all("Succeeded")
    found = place.events()
    assert found[0] == Started(1)
    assert [event.member for event in found[1:] if isinstance(event, MemberExited) and event.exit.ok] == [0, 1]


def test_a_success_before_the_start_of_the_others_is_reported_after_the_start() -> None:
    place = Place()
    place.pod(0, "Succeeded")
    place.pod(1)
    assert place.events() == []
    place.pod(1, "Running")
    assert [type(event) for event in place.events()] == [Started, MemberExited]


def test_a_failure_is_reported_once_and_before_the_others_start() -> None:
    place = Place()
    place.pod(0, "Failed", code=3)
    place.pod(1)
    assert [exit.code for exit in place.ends().values()] == [3]
    assert place.events() == []


def test_a_missing_pod_is_a_loss_once_all_pods_have_existed() -> None:
    place = Place()
    place.pod(0, "Running")
    assert place.events() == []
    place.run.launched = True
    place.observer.check_missing(place.run)
    (lost,) = place.ends().values()
    assert (lost.lost, lost.detail) == (True, "the pod of worker/1 on n1 is gone")


def test_a_deleted_pod_is_a_loss() -> None:
    place = started()
    place.remove(place.names[1])
    assert {number: exit.detail for number, exit in place.ends().items()} == {1: "the pod of worker/1 on n1 is gone"}


def test_a_gang_is_not_gone_while_a_pod_lives_or_a_request_could_create_one() -> None:
    place = started()
    place.run.tracker.stopping = True
    place.pod(1, "Succeeded")
    assert [type(event) for event in place.events()] == [MemberExited]
    place.pod(0, "Succeeded")
    assert [type(event) for event in place.events(more_may_come=True)] == [MemberExited]
    assert place.events() == [GangGone(1)]
    assert place.events() == []


def test_a_pod_that_belongs_to_no_member_keeps_a_gang_alive() -> None:
    place = started()
    place.named("digits-other", "Running")
    place.run.tracker.stopping = True
    place.all("Failed", code=143)
    assert [type(event) for event in place.events()] == [MemberExited, MemberExited]
    place.named("digits-other", "Succeeded")
    assert place.events() == [GangGone(1)]


def test_a_pod_of_an_earlier_generation_belongs_to_no_run() -> None:
    place = started(options={"settling": 0})
    place.run.generation = 2
    place.named("digits-worker-7", "Running", generation=1)
    assert list(place.run.strays) == ["uid-digits-worker-7"]
    place.named("digits-worker-7", "Failed", generation=1)
    assert place.run.strays == {}


def test_the_end_of_a_pod_on_a_dead_node_is_a_loss() -> None:
    place = started()
    place.dead.add("n1")
    place.observer.see_all(place.gang, place.run)
    (lost,) = place.ends().values()
    assert lost.lost
    assert lost.detail == f"{place.names[1]} was on n1, which is gone"


def test_a_pod_that_is_deleted_is_a_loss_before_it_is_gone_where_pods_restart_alone() -> None:
    place = started(options={"alone": True})
    place.pod(0, "Failed", code=1)
    place.pod(1, "Running", deleted=True)
    ends = place.ends()
    assert (ends[0].code, ends[1].lost, ends[1].detail) == (1, True, f"{place.names[1]} is being deleted")
    assert 1 in place.run.tracker.alive


def test_a_restarted_member_starts_once_its_next_pod_exists() -> None:
    place = started(options={"alone": True})
    place.pod(0, "Failed", code=1)
    assert list(place.ends()) == [0]
    place.run.tracker.restart(0)
    place.run.restarting.add(0)
    place.run.replaced.add(f"uid-{place.names[0]}")
    place.pod(0, "Failed", code=1, deleted=True)
    place.remove(place.names[0])
    assert place.events() == []
    place.pod(0, "Running", uid="next")
    assert place.events() == [MemberStarted(1, 0)]
    assert place.run.restarting == set()
    place.pod(0, "Failed", code=2, uid="next")
    assert [exit.code for exit in place.ends().values()] == [2]


def test_the_next_pod_of_a_member_may_be_seen_before_the_end_of_its_namesake() -> None:
    place = started(options={"alone": True})
    place.pod(0, "Running", uid="next")
    assert [exit.lost for exit in place.ends().values()] == [True]
    number = place.run.pods.number("next")
    assert number == 0


def test_a_success_alone_is_reported_before_the_others_start() -> None:
    place = Place(options={"alone": True})
    place.pod(0, "Succeeded")
    place.pod(1)
    assert place.ends() == {0: Exit(code=0, detail=f"{place.names[0]} on n0 succeeded")}


def test_the_success_of_a_launcher_is_reported_while_workers_run() -> None:
    place = Place(mpi=True)
    place.run.launched = True
    place.launchers.see(launcher_job(), there=True)
    place.all("Running")
    place.named("digits-launcher-x", "Running", owner="job", role="launcher")
    assert place.events() == [Started(1)]
    place.named("digits-launcher-x", "Succeeded", owner="job", role="launcher")
    (launcher,) = place.run.made_by_others
    assert {number: exit.ok for number, exit in place.ends().items()} == {launcher: True}


def test_the_failure_of_a_launchers_job_is_the_launchers() -> None:
    place = Place(mpi=True)
    place.run.launched = True
    place.all("Running")
    place.launchers.see(launcher_job(failed=True), there=True)
    place.observer.see_launcher(place.gang, place.run)
    (failure,) = place.ends().values()
    assert failure.end_class is not None
    assert (failure.code, failure.end_class.fatal) == (1, True)


def test_one_success_does_not_end_the_gang() -> None:
    place = started(members=3)
    place.pod(0, "Succeeded")
    assert [exit.code for exit in place.ends().values()] == [0]
    assert not place.run.tracker.succeeded


def test_a_member_that_was_deleted_and_ended_well_is_a_loss() -> None:
    place = started(members=3)
    place.pod(2, "Succeeded", deleted=True)
    (lost,) = place.ends().values()
    assert lost.lost
    assert "worker/2 on n2 was deleted" in lost.detail


def test_a_member_that_is_deleted_while_its_run_is_stopped_ends_as_it_did() -> None:
    place = started(members=3)
    place.run.tracker.stopping = True
    place.all("Succeeded", deleted=True)
    assert all(exit.ok for exit in place.ends().values())


def test_the_earliest_failure_is_reported_first_whatever_the_order_of_members() -> None:
    place = started(members=3, options={"settling": 1_000})
    place.pod(0, "Failed", code=1, at="2026-01-01T12:00:05Z")
    assert place.events() == []
    place.pod(2, "Failed", code=137, at="2026-01-01T12:00:02Z")
    place.now = 1_000
    assert list(place.ends()) == [2, 0]


def launcher_job(*, failed: bool = False) -> dict[str, Any]:
    owners = [{"uid": "u", "controller": True, "kind": "MPIJob", "name": "digits"}]
    conditions = [{"type": "Failed", "status": "True"}] if failed else []
    metadata = {"uid": "job", "name": "digits-launcher", "namespace": "ml", "ownerReferences": owners}
    return {"metadata": metadata, "status": {"conditions": conditions}}


def test_a_missing_pod_of_a_launchers_job_is_no_loss() -> None:
    place = Place(mpi=True)
    place.run.launched = True
    place.all("Running")
    place.observer.check_missing(place.run)
    assert place.events() == []
    assert place.run.made_by_others == {slot.number for slot in place.run.slots if slot.role == "launcher"}


@pytest.mark.parametrize("first", ["Failed", "Running"])
def test_the_next_pod_of_a_launchers_job_takes_the_place_of_a_failed_one(first: str) -> None:
    place = Place(mpi=True)
    place.launchers.see(launcher_job(), there=True)
    (launcher,) = place.run.made_by_others
    place.named("digits-launcher-a", "Running", owner="job", role="launcher")
    assert place.run.pods.number("uid-digits-launcher-a") == launcher
    if first == "Failed":
        place.named("digits-launcher-a", "Failed", owner="job", role="launcher", code=1)
        place.named("digits-launcher-b", "Running", owner="job", role="launcher")
    else:  # the watch brings the new pod before the end of the old one
        place.named("digits-launcher-b", "Running", owner="job", role="launcher")
        place.named("digits-launcher-a", "Failed", owner="job", role="launcher", code=1)
    assert place.run.pods.number("uid-digits-launcher-b") == launcher
    assert place.events() == []


def test_the_pods_of_a_deleted_launchers_job_keep_their_owner() -> None:
    place = Place(mpi=True)
    job, owner = OwnerKey("ml", "job"), OwnerKey("ml", "u")
    assert place.launchers.see(launcher_job(), there=True) == owner
    assert place.launchers.see(launcher_job(), there=False) == owner
    assert place.launchers.owner(job) == owner
    assert place.launchers.of(owner) == ()


def test_the_failure_of_a_launcher_counts_once_its_job_has_given_up() -> None:
    place = Place(mpi=True)
    place.launchers.see(launcher_job(), there=True)
    place.all("Running")
    place.named("digits-launcher-a", "Failed", owner="job", role="launcher", code=1)
    assert place.events() == []
    place.launchers.see(launcher_job(failed=True), there=True)
    place.observer.see_launcher(place.gang, place.run)
    assert [exit.code for exit in place.ends().values()] == [1]


def test_counts_follow_the_pods() -> None:
    place = started(members=3)
    place.pod(2, "Failed", code=1)
    assert {phase: count for phase, count in place.run.pods.phases("worker").items() if count} == {
        "Running": 2,
        "Failed": 1,
    }
    revision = place.run.pods.revision
    place.pod(1, "Running", podIP="10.0.0.1")
    assert (place.run.pods.revision, place.run.pods.running) == (revision, {place.names[0], place.names[1]})
    place.remove(place.names[1])
    assert place.run.pods.running == {place.names[0]}


def test_an_event_of_one_pod_observes_no_other_pod(monkeypatch: pytest.MonkeyPatch) -> None:
    place = started(members=200)
    seen: list[str] = []
    observe = pod_ends.observe
    monkeypatch.setattr(
        pod_ends, "observe", lambda pod, *more: (seen.append(pod.metadata.name), observe(pod, *more))[1]
    )
    place.pod(7, "Running", podIP="10.0.0.7")
    assert place.events() == []
    assert seen == [place.names[7]]
    assert list(place.run.pods.take_changed()) != []
