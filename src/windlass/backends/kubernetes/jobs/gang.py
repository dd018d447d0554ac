"""A job of one of our kinds, as the world knows it: its object, its run, and which pods are whose."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from windlass.backends.kubernetes.jobs.object_reference import ObjectReference, version_of
from windlass.backends.kubernetes.pods.run import Run
from windlass.backends.kubernetes.status.refusals import WAITING
from windlass.backends.kubernetes.status.stored_state import Stored, revision_of
from windlass.core.model.job import Job
from windlass.core.model.status import JobState, Status
from windlass.jobs.kubernetes.kinds import registry
from windlass.jobs.kubernetes.parsed_job import Member, ParsedJob
from windlass.jobs.kubernetes.status.status_times import milliseconds


@dataclass(slots=True)
class Gang:
    """`home` has the state in it that was committed last: `stored`."""

    home: ObjectReference
    parsed: ParsedJob
    job: Job
    """What the controller is told."""
    number: int
    wanted: tuple[ParsedJob, Job] | None = None
    """What its object asks for by now, if it is held to something else until its next start."""
    version: int = 0
    """The resource version of the object as it is known."""
    looked: int = 0
    """The version, and the generation, of which it was looked what its owner wants."""
    looked_generation: int | None = None
    stored: Stored | None = None
    run: Run | None = None
    deleted: bool = False
    """Somebody has deleted the object: the job is to end."""
    gone: bool = False
    """The object is not there any more: nothing can be written into it."""
    prepared: int = 0
    """The generation whose pods were made while it waits for nodes."""
    put_away: int = 0
    """How often such pods were no longer wanted."""
    preparing: int | None = None
    """Such pods are being made: those that are wanted since `put_away` was this."""
    remade: int = 0
    """Pods made anew within its runs, of a kind that does so."""
    said: Mapping[str, Any] = field(default_factory=dict)
    """What the last judgement of its pods has the status say."""
    training: Mapping[str, Any] = field(default_factory=dict)
    """What its agents have told: `status.training`."""
    news: bool = False
    """Something has changed of which its status tells, and no commit."""
    waits: str = ""
    """Why it waits in the queue, as a sentence; `waits_reason` in one word."""
    waits_reason: str = ""
    writing: asyncio.Lock = field(default_factory=asyncio.Lock)
    """Held while the object is written."""
    held: str = ""
    """Why the controller is not told of it yet."""
    singles: frozenset[str] = frozenset()
    """What it asks of its nodes that each has one of."""
    asked: bool = False
    """The picture of the cluster has `singles` in it for this gang's sake."""
    to_choose: tuple[str, ...] = ()
    """Claims whose volumes are made where the first pod that mounts them goes."""
    warnings: tuple[str, ...] = ()
    """What was written and has no effect."""
    trouble: str = ""
    """Why its pods cannot be made just now."""
    made: dict[str, Member] = field(default_factory=dict)
    """The pods to be, by name, of the generation `made_for`."""
    companions: dict[tuple[str, str], Mapping[str, Any]] = field(default_factory=dict)
    """What stands beside its pods, as it was made for the run `accompanied`, by kind and name."""
    accompanied: tuple[int, frozenset[str]] = (0, frozenset())
    """The generation, and which of its pods ran."""
    made_for: tuple[int, tuple[tuple[str, int], ...]] = (0, ())
    names: Mapping[str, int] = field(default_factory=dict)
    """Members by pod, of the run `named_for`."""
    named_for: Run | None = None

    @property
    def id(self) -> str:
        """What the controller calls it."""
        return self.home.job_id

    @property
    def status(self) -> Status:
        """As committed last; of one that the controller is not told of yet, why not."""
        if self.stored:
            return self.stored.status
        if not self.held:
            return Status()
        made = milliseconds(self.parsed.manifest["metadata"].get("creationTimestamp"))
        return Status(reason=WAITING, message=self.held, created_at=made or 0)

    @property
    def state(self) -> JobState:
        """The same, with the job."""
        return JobState(self.id, self.number, self.job, self.status)

    @property
    def judged(self) -> bool:
        """Whether its pods are made anew one by one, and not the gang whole."""
        return not self.parsed.policy.gang_restart

    @property
    def sizes(self) -> Mapping[str, int]:
        """Replicas by role, as asked for."""
        return {role.name: role.replicas for role in self.job.roles}

    @property
    def elastic(self) -> bool:
        """Whether its size is known only once it starts."""
        return any(role.elastic for role in self.job.roles)

    def learn(self, manifest: Mapping[str, Any]) -> bool:
        """The object as it is now; False if something newer of it is known, or it is another one of that name.

        One with a state that was not committed here is not learnt: a write to it is to be a conflict.
        """
        if manifest["metadata"]["uid"] != self.home.uid or version_of(manifest) <= self.version:
            return False
        if revision_of(manifest) > (self.stored.revision if self.stored else 0):
            return False
        self.version = version_of(manifest)
        spec = self.parsed.manifest.get("spec")  # until what is asked for now becomes what it is
        self.parsed = replace(self.parsed, manifest={**manifest, "spec": spec})
        return True

    def members(self, generation: int, sizes: Mapping[str, int]) -> Mapping[str, Member]:
        """The pods of a generation of so many replicas by role: by name, in the order of ranks; the same each time."""
        sizes = {**dict.fromkeys((each.role for each in self.parsed.replicas), 0), **sizes}
        wanted = (generation, tuple(sizes.items()))
        if self.made_for != wanted:
            self.made = {member.name: member for member in registry.members(self.parsed, generation, sizes)}
            self.made_for = wanted
        return self.made

    def pod_names(self, run: Run) -> Mapping[str, int]:
        """The members of a run by the names of their pods."""
        if self.named_for is not run:
            places = {(slot.role, slot.index): slot.number for slot in run.slots}
            members = self.members(run.generation, run.sizes)
            self.names = {name: places[member.role, member.index] for name, member in members.items()}
            run.made_by_others = frozenset(places.values()) - frozenset(self.names.values())
            self.named_for = run
        return self.names
