"""A job of one of our kinds as the backend knows it: its object, its stored state, its run, and the names of its pods.

The fields that belong to one task are grouped: each group is written by one part of the backend.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

from windlass.backends.kubernetes.client.object_reference import ObjectReference, version_of
from windlass.backends.kubernetes.client.objects import Pod
from windlass.backends.kubernetes.cluster.pods import Holding, pod_usage
from windlass.backends.kubernetes.gangs import stored_state
from windlass.backends.kubernetes.gangs.event_obstacles import EventObstacle
from windlass.backends.kubernetes.gangs.pod_template_hash import with_template_hash
from windlass.backends.kubernetes.gangs.run import Run
from windlass.backends.kubernetes.gangs.stored_state import FIELD, Stored, UnreadableError
from windlass.core.model.diagnosed_cause import DiagnosedCause
from windlass.core.model.job import Job, RestartScope
from windlass.core.model.status import TERMINAL, JobState, Status
from windlass.core.model.steps import job_at_step
from windlass.jobs.kubernetes.kinds import registry
from windlass.jobs.kubernetes.parsed_job import Member, ParsedJob
from windlass.jobs.kubernetes.pods.pod_assembly import selector_of
from windlass.jobs.kubernetes.status.conditions import conditions_of, shows_state
from windlass.jobs.kubernetes.status.foreign_status import has_ended
from windlass.jobs.kubernetes.status.status_times import milliseconds

NEVER_MADE = (-1, 0)
"""`DependentState.made_for` until this controller creates dependent objects."""
WAITING = "Waiting"
"""Reason of a job that waits for another change in the cluster before it may queue."""


@dataclass(slots=True)
class ObjectVersion:
    """Versions of a job's object. Written by the job store and by status writes."""

    known: int = 0
    """Latest known resource version of the object."""
    read: int = 0
    """Resource version at which the owner's request was last read."""
    read_generation: int | None = None
    """Generation of the object at `read`: it changes with the spec only."""
    gone: bool = False
    """The object is deleted: it cannot be written."""
    committed: Any = None
    """`status.windlass` as this controller has read or written it last: anything else there is another writer's."""
    unconfirmed_writes: list[Stored] = field(default_factory=list)
    """States whose write has failed, and may have been carried out all the same."""
    write_lock: asyncio.Lock = field(default_factory=asyncio.Lock)
    """Held while the object is written."""


@dataclass(slots=True)
class ClusterFit:
    """Result of resolving a job's names in its cluster. Written by the job store."""

    waiting_reason: str = ""
    """The reason why the controller does not know the job yet; "" if it does."""
    is_early: bool = False
    """Whether that is a watch that is behind, of which its owner is not told: it passes by itself."""
    denial: str = ""
    """Why a job that the controller knows has not the queue or priority that it asks for; "" if it has."""
    to_choose: tuple[str, ...] = ()
    """Claims whose volumes are provisioned near the first pod that mounts them."""


@dataclass(slots=True)
class StandbyState:
    """Pods that exist while their gang still waits for nodes. Written by `pods.standby_pods`."""

    generation: int = 0
    """Generation whose pods were created; 0 if none."""
    discards: int = 0
    """Number of times such pods were discarded."""
    creating: int | None = None
    """Value of `discards` for which pods are being created; None if no creation is under way."""


@dataclass(frozen=True, slots=True)
class MadeObject:
    """A dependent object that the job owns: the manifest that it was created from, and its uid ("": not read)."""

    manifest: Mapping[str, Any]
    uid: str


@dataclass(slots=True)
class DependentState:
    """Dependent objects of a gang. Written by the pod executor."""

    made: dict[tuple[str, str], MadeObject] = field(default_factory=dict)
    """By kind and name."""
    made_for: tuple[int, int] = NEVER_MADE
    """Generation, and revision of the set of running pods (`RunPods`), for which they were last created."""
    inherited: bool = False
    """Whether services exist that an earlier controller has created, possibly those of removed members as well."""


class LastWait(NamedTuple):
    """An attempt that waited for its start, and the obstacle as lines of evidence (`status.job_waits`)."""

    attempt: int = 0
    text: str = ""
    from_events: bool = False
    """Whether lines of it are Events, which other programs can write as well."""


@dataclass(slots=True)
class StatusNotes:
    """Parts of a job's status that are not the controller's state; several parts of the backend write them."""

    needs_write: bool = False
    """Something has changed that the status shows and no commit writes."""
    training: Mapping[str, Any] = field(default_factory=dict)
    """`status.training`, as agents reported it."""
    pending_message: str = ""
    """Reason for which the job waits in the queue, as a sentence."""
    pending_reason: str = ""
    """The same as a reason in one word."""
    missing_reason: str = ""
    """Reason in one word why it lacks replicas that its owner requests; "" if it lacks none."""
    missing_message: str = ""
    """The same as a sentence."""
    creation_error: str = ""
    """The reason why its pods or dependent objects cannot be created at present."""
    last_wait: LastWait = field(default_factory=LastWait)
    """The obstacle of the attempt that waited last for its start."""
    event_obstacle: EventObstacle | None = None
    """Obstacle to the start of a pod that only Events name, as they were read last."""
    wait_verdict: DiagnosedCause | None = None
    """Verdict on the obstacle for which the job waits at present."""
    announced: dict[str, str] = field(default_factory=dict)
    """By topic of an announcement that holds at present: its word (`status.announcements`)."""
    not_written: str = ""
    """The reason why the controller's last state could not be written. Nothing else is written meanwhile."""


@dataclass(slots=True)
class MemberNames:
    """Cache of the pods of one generation: their manifests and numbers by name."""

    made_for: tuple[int, tuple[tuple[str, int], ...]] = (0, ())
    """Generation and replicas by role of `members`."""
    members: Mapping[str, Member] = field(default_factory=dict)
    numbered_for: Run | None = None
    numbers: Mapping[str, int] = field(default_factory=dict)
    """Member numbers of the run `numbered_for` by pod name."""


@dataclass(slots=True)
class Gang:
    """One job. `reference` is its object, `stored` the state that was last committed into it."""

    reference: ObjectReference
    parsed: ParsedJob
    job: Job
    """The job as the controller knows it."""
    number: int
    requested_spec: tuple[ParsedJob, Job] | None = None
    """Spec that its object requests, if it applies to the next start only."""
    last_readable: str = ""
    """Its spec for the status (`readable_spec`), while the object's own spec has a fault; else ""."""
    started_spec: str = ""
    """Its spec for the status (`readable_spec`), while `requested_spec` waits; else ""."""
    stored: Stored | None = None
    decided: Status | None = None
    """Status that the controller has decided on, until it is committed."""
    run: Run | None = None
    deleted: bool = False
    """The object was deleted or annotated: the job is to end."""
    released: bool = False
    """The object was deleted without its pods (cascade orphan): they live on, and belong to no job any more."""
    version: ObjectVersion = field(default_factory=ObjectVersion)
    fit: ClusterFit = field(default_factory=ClusterFit)
    standby: StandbyState = field(default_factory=StandbyState)
    dependents: DependentState = field(default_factory=DependentState)
    notes: StatusNotes = field(default_factory=StatusNotes)
    _names: MemberNames = field(default_factory=MemberNames)

    @property
    def id(self) -> str:
        """Id of the job in the controller."""
        return self.reference.job_id

    @property
    def status(self) -> Status:
        """Status that was last committed; for a job that the controller does not know yet, the reason why not."""
        if self.stored:
            return self.stored.status
        if not self.fit.waiting_reason:
            return Status()
        made = milliseconds(self.parsed.manifest["metadata"].get("creationTimestamp"))
        return Status(reason=WAITING, message=self.fit.waiting_reason, created_at=made or 0)

    @property
    def state(self) -> JobState:
        """The status together with the job."""
        return JobState(self.id, self.number, self.job, self.status)

    @property
    def decided_state(self) -> JobState:
        """The state that the controller has decided on last, committed or not."""
        return self.state if self.decided is None else replace(self.state, status=self.decided)

    def held_of(self, pod: Pod) -> Holding | None:
        """Returns what the controller holds for one of its pods on its node; None: nothing.

        A pod that is no member of the present generation is about to be deleted, and all of it counts as held. A pod
        beyond the members of this generation takes its own room until it is gone.
        Of a gang that another scheduler places nothing is held: its pods count as usage by others.
        """
        run = self.run
        if run is None or run.gone or self.job.placed_by:
            return None
        number = run.pods.number(pod.metadata.uid)
        if number is None:
            return Holding(pod_usage(pod), self.job.queue, self.job.user)
        if number >= len(run.slots):
            return None
        role = run.slots[number].role
        if not run.slots[number].node:  # another scheduler was to choose its node when it was started
            return None
        resources = next((each.resources for each in self.job.roles if each.name == role), None)
        return None if resources is None else Holding(resources, self.job.queue, self.job.user)

    @property
    def restarts_members(self) -> bool:
        """Whether its pods restart one by one, and not the gang as a whole."""
        return self.job.restart.scope is RestartScope.MEMBER

    @property
    def sizes(self) -> Mapping[str, int]:
        """Requested replicas by role, of the step that starts next."""
        return {role.name: role.replicas for role in job_at_step(self.job, self.status.step).roles}

    def is_of_earlier_step(self, pod: Pod) -> bool:
        """Tells whether a pod belongs to a step of the job that has succeeded, while the job goes on."""
        step = 0 if self.status.phase in TERMINAL else self.status.step
        earlier = (role.name for role in self.job.roles if role.step < step)
        return any(selector_of(self.parsed, role).items() <= pod.metadata.labels.items() for role in earlier)

    @property
    def elastic(self) -> bool:
        """Whether its size is decided only at its start."""
        return any(role.elastic for role in self.job.roles)

    def learn(self, manifest: Mapping[str, Any]) -> bool:
        """Stores the object as it is now; returns False if a newer version is known, or if it is another object."""
        if manifest["metadata"]["uid"] != self.reference.uid or version_of(manifest) <= self.version.known:
            return False
        self.version.known = version_of(manifest)
        spec = self.parsed.manifest.get("spec")  # the requested spec takes effect later, by `requested_spec`
        self.parsed = replace(self.parsed, manifest={**manifest, "spec": spec})
        return True

    @property
    def has_foreign_state(self) -> bool:
        """Whether another writer has changed the state in the object. A write under way finds that itself."""
        if self.version.write_lock.locked():
            return False
        found = (self.parsed.manifest.get("status") or {}).get(FIELD)
        return found != self.version.committed and not self.takes_known_state()

    @property
    def has_unwritten_state(self) -> bool:
        """Whether its state follows from what another operator has left, and is yet to be written."""
        return self.stored is not None and self.stored.revision == 0 and not self.is_as_left

    @property
    def is_as_left(self) -> bool:
        """Whether another operator has written the end of the job: then its status stays as that has written it.

        One in which the end is not the last condition is written once: tables show the last one.
        """
        is_ended = self.stored is not None and self.stored.revision == 0 and self.stored.status.phase in TERMINAL
        return is_ended and has_ended(self.parsed.manifest) and shows_state(conditions_of(self.parsed.manifest))

    def takes_known_state(self) -> bool:
        """Takes the state in the known object if this controller has written it; returns False if another writer has.

        A write whose answer was lost may have been carried out: its state is taken as the one committed last.
        """
        found = (self.parsed.manifest.get("status") or {}).get(FIELD)
        if found == self.version.committed:
            return True
        try:
            there = stored_state.read(found)
        except UnreadableError:
            return False
        if there != self.stored and (there is None or there not in self.version.unconfirmed_writes):
            return False
        self.stored, self.version.committed = there, found
        return True

    def respecify(self, parsed: ParsedJob, job: Job) -> None:
        """Replaces the job by another one, also in the known object."""
        self.requested_spec, self.job, self.started_spec = None, job, ""
        manifest = {**self.parsed.manifest, "spec": parsed.manifest["spec"]}
        self.parsed, self._names.made_for = replace(parsed, manifest=manifest), (0, ())

    def members(self, generation: int, sizes: Mapping[str, int]) -> Mapping[str, Member]:
        """Returns the pods of a generation with these replicas by role: by name, in the order of ranks."""
        sizes = {**dict.fromkeys((each.role for each in self.parsed.replicas), 0), **sizes}
        cache, wanted = self._names, (generation, tuple(sizes.items()))
        if cache.made_for != wanted:
            cache.members = with_template_hash(registry.members(self.parsed, generation, sizes))
            cache.made_for = wanted
        return cache.members

    def is_member(self, name: str) -> bool:
        """Tells whether the backend creates a pod of this name for the latest generation that it computed."""
        return name in self._names.members

    def pod_names(self, run: Run) -> Mapping[str, int]:
        """Returns the member numbers of a run by the names of their pods."""
        cache = self._names
        if cache.numbered_for is not run:
            places = {(slot.role, slot.index): slot.number for slot in run.slots}
            members = self.members(run.generation, run.sizes)
            cache.numbers = {name: places[member.role, member.index] for name, member in members.items()}
            cache.numbered_for = run
        return cache.numbers
