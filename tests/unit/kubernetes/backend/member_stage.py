"""Lifecycle and run control of jobs whose pods restart one by one, with pods that the test sets."""

from __future__ import annotations

import copy
from types import SimpleNamespace
from typing import Any

import msgspec

from windlass.backends.kubernetes.client.object_cache import ObjectRevision
from windlass.backends.kubernetes.client.object_reference import reference_to
from windlass.backends.kubernetes.client.objects import Pod
from windlass.backends.kubernetes.client.resources import named
from windlass.backends.kubernetes.gangs.gang import Gang
from windlass.backends.kubernetes.gangs.run import Run, slots
from windlass.backends.kubernetes.gangs.stored_state import Stored
from windlass.backends.kubernetes.jobs.gang_controller import GangController
from windlass.backends.kubernetes.jobs.run_control import BackendParts, ChangedGangs, RunControl
from windlass.backends.kubernetes.pods.gang_pods import GangPods
from windlass.backends.kubernetes.pods.launcher_jobs import LauncherJobs
from windlass.backends.kubernetes.pods.pod_store import PodStore
from windlass.backends.kubernetes.status.status_writer import status_of
from windlass.core.lifecycle import events as e
from windlass.core.lifecycle.commands import RestartMember, Stop
from windlass.core.lifecycle.state_machine import step
from windlass.core.model.status import TERMINAL, JobState, Phase, Placement, Status
from windlass.jobs.kubernetes.kinds import registry
from windlass.jobs.kubernetes.labels import GENERATION
from windlass.jobs.kubernetes.parsed_job import ParsedJob


class Executor:
    """Records the requested creations and deletions; the test carries them out."""

    def __init__(self, launchers) -> None:
        self.launchers = launchers
        self.deleted: list[str] = []
        self.created: list[str] = []
        self.without_service: set[str] = set()
        self.forgotten: list[str] = []
        """Gangs whose launcher's Job is to be created again."""
        self.removes_services = False
        """Deletions of services take until the test ends them."""

    @property
    def deletion(self):
        return self

    @property
    def upkeep(self):
        return self

    def delete(self, pods, _grace) -> None:
        self.deleted += [pod.metadata.name for pod in pods if pod.metadata.name not in self.deleted]

    def make_anew(self, _gang, _run, names) -> None:
        self.created += [name for name in names if name not in self.created]

    def bind(self, *_) -> None: ...

    def update(self, *_) -> None: ...

    def remove_services(self, _gang, pods, run=None) -> None:
        self.without_service |= set(pods)
        if run is not None:
            run.removing_services = self.removes_services

    def forget_jobs(self, gang) -> None:
        self.forgotten.append(gang.reference.name)

    def end_jobs(self, jobs) -> None:
        for job in list(jobs):
            self.launchers.see(job, there=False)


class Stage:
    """A running job in its first generation, with the pods of the test."""

    def __init__(self, manifest: dict[str, Any], *, remade: int = 0) -> None:
        whole = copy.deepcopy(manifest)
        whole["metadata"] |= {"namespace": "ml", "uid": "u", "resourceVersion": "1"}
        parsed = registry.read(whole)
        assert isinstance(parsed, ParsedJob), parsed
        self.gang = Gang(reference_to(named(parsed.api_version, "jobs", parsed.kind), whole), parsed, parsed.job, 1)
        placement = Placement({role.name: tuple(f"n{n}" for n in range(role.replicas)) for role in parsed.job.roles})
        status = Status(
            Phase.RUNNING, "Running", "", 1, placement=placement, is_gone=False, started_at=0, admitted_at=0,
            first_admitted_at=0, running_since=0, member_restarts=remade,
        )  # fmt: skip
        self.state = JobState(self.gang.id, 1, parsed.job, status)
        self.run = Run(1, slots(parsed.job, placement), alone=self.gang.restarts_members, settling=0)
        self.run.ordered = self.run.launched = True
        self.run.track(started=True)
        self.names = dict(self.gang.pod_names(self.run))
        self.run.made_by_others = frozenset(range(len(self.run.slots))).difference(self.names.values())
        self.gang.run = self.run
        self._keep()
        self.pods = PodStore(self._see)
        self.launchers = LauncherJobs(self.pods)
        self.executor, self.now, self.versions = Executor(self.launchers), 0, 1
        self.events: list[e.Event] = []
        gang_pods = GangPods(self.pods, self.launchers, lambda _node: False, lambda: self.now, 60_000)
        self.closed: set[str] = set()
        placements = SimpleNamespace(
            fits=lambda _gang_id, _job, _placement, node: node not in self.closed, release=lambda _gang_id: None
        )
        monitor = SimpleNamespace(placements=placements)
        parts = BackendParts(gang_pods, monitor, lambda job_event: self.events.append(job_event.event), 0)
        store = {self.gang.id: self.gang}
        self.control = RunControl(store, ChangedGangs(lambda: None), None, self.executor, parts, lambda _gang: None)
        self.gangs = GangController(self.control)

    def _see(self, pod: Pod, there: bool) -> None:
        self.control.parts.gang_pods.see(self.gang, self.run, pod, there=there)

    def _keep(self) -> None:
        self.gang.stored = Stored(1, 1, self.state.status)

    def put(self, manifest: dict[str, Any], *, uid: str = "") -> None:
        """Sets a pod, or the launcher's Job."""
        self.versions += 1
        about = {"namespace": "ml", "resourceVersion": str(self.versions), **manifest["metadata"]}
        owner = "job" if manifest["metadata"].get("labels") else "u"
        about |= {"ownerReferences": [{"uid": owner, "controller": True, "kind": "x", "name": "x"}]}
        if manifest.get("kind") == "Job":
            about |= {"uid": "job", "ownerReferences": [{"uid": "u", "controller": True, "kind": "x", "name": "x"}]}
            self.see_job({**manifest, "metadata": about}, there=True)
            return
        about |= {"uid": uid or f"uid-{about['name']}", "labels": {**(about.get("labels") or {}), GENERATION: "1"}}
        spec = manifest.get("spec", {"nodeName": "n0"})
        self.pods.learn(msgspec.convert({"metadata": about, "spec": spec, **_typed(manifest)}, Pod))

    def see_job(self, job: dict[str, Any], *, there: bool) -> None:
        self.launchers.see(job, there=there)
        self.gangs.see_launcher(self.gang, job, there=there)

    def remove(self, name: str) -> None:
        """Removes a pod."""
        found = self.pods.fresh.objects[("ml", name)]
        self.versions += 1
        self.pods.apply(self.pods.fresh.remove(ObjectRevision("ml", name, found.metadata.uid, self.versions)))

    def turn(self, *events: e.Event) -> None:
        """Processes the present pods and further events."""
        self.events += events
        while True:
            if self.gang.run is not None:
                self.control.process(self.gang, self.run, self.now)
            if not self.events:
                return
            happened, self.events = self.events, []
            for event in happened:
                self._happen(event)

    def _happen(self, event: e.Event) -> None:
        self.state, commands = step(self.state, event, self.now)
        self._keep()
        for command in commands:
            match command:
                case Stop(job_id, generation, grace):
                    self.gangs.stop(job_id, generation, grace)
                case RestartMember(job_id, generation, member):
                    self.gangs.restart_member(job_id, generation, member)
        if self.state.status.phase is Phase.SUSPENDED:
            self.gangs.delete_pods(self.gang)
        if self.state.status.phase in TERMINAL:
            self.clean_up()

    def clean_up(self) -> None:
        """Requests the deletions of the clean-up policy; the run stays, for the counts of the status."""
        self.gangs.clean_up(self.gang)
        self.gang.run = self.run

    def status(self) -> dict[str, Any]:
        """Status of the object, which is stored in the gang's object."""
        found = dict(status_of(self.gang, self.state.status, self.now))
        self.gang.parsed.manifest["status"] = found
        return found

    def in_order(self, names: list[str]) -> tuple[str, ...]:
        """Names of pods in the order of ranks, others after them."""
        return tuple(sorted(set(names), key=lambda name: (self.names.get(name, 99), name)))


def _typed(manifest: dict[str, Any]) -> dict[str, Any]:
    status = {name: value for name, value in manifest["status"].items() if value is not None}
    return {"status": status}
