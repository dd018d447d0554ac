"""Store of every job of our kinds in the cluster: those the controller holds, ended ones, and those not reported yet.

An object becomes a job when it is read without a fault. Of two objects with one name, one after the other, the second
is reported only after nothing of the first is left.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from typing import Any

from windlass.backends.kubernetes.client.object_reference import ObjectReference, home_of, version_of
from windlass.backends.kubernetes.client.resources import Resource
from windlass.backends.kubernetes.cluster.job_resolution import Fitted
from windlass.backends.kubernetes.cluster.lookups import ChangedNames
from windlass.backends.kubernetes.gangs import stored_state
from windlass.backends.kubernetes.gangs.gang import WAITING, Gang, ObjectVersion
from windlass.backends.kubernetes.gangs.stored_state import TRAINING
from windlass.backends.kubernetes.status.refusals import Refusal
from windlass.backends.kubernetes.status.state_writes import DeposedError
from windlass.backends.port import BackendEvent, JobArrived, JobChanged, JobEvent
from windlass.core.lifecycle.events import Cancel, Event, Resume, Suspend
from windlass.core.lifecycle.spec_update import can_change, job_as_placed
from windlass.core.model.status import TERMINAL, JobState, Phase, Target
from windlass.jobs.kubernetes.kinds import registry
from windlass.jobs.kubernetes.kinds.run_policy import US, is_ours
from windlass.jobs.kubernetes.manifest_reader import Fault
from windlass.jobs.kubernetes.parsed_job import ParsedJob
from windlass.jobs.kubernetes.settings import Settings

Manifest = Mapping[str, Any]
CANCEL = "windlass.dev/cancel"
"""Annotation that ends a job; its value names the user. The object stays, and its status shows it."""


class JobStore:
    """Jobs by id and by the uid of their object. `finish` resolves a parsed job in the cluster.

    `tell` is called with events for the controller, `refuse` with objects that can be no job, or not yet, and `changed`
    with each gang that has changed.
    """

    def __init__(
        self,
        settings: Settings,
        finish: Callable[[ParsedJob], Fitted],
        tell: Callable[[BackendEvent], None],
        refuse: Callable[[Refusal], None],
        changed: Callable[[Gang], None],
    ) -> None:
        self._settings, self._finish, self._tell, self._refuse = settings, finish, tell, refuse
        self._changed = changed
        self._gangs: dict[str, Gang] = {}
        self._by_uid: dict[str, Gang] = {}
        self._next: dict[str, tuple[Resource, Manifest]] = {}
        """By job id: the object that follows one of the same name that has not ended yet."""
        self._refused: dict[str, int] = {}
        """By uid: the generation of the object for which its fault was reported."""
        self.left: frozenset[str] = frozenset()
        """Kinds that another operator handles."""
        self._ignored: dict[str, tuple[Resource, Manifest]] = {}
        """By uid: objects that are left to other operators."""
        self._number = 1
        self._recovered = False

    def __iter__(self) -> Iterator[Gang]:
        return iter(self._gangs.values())

    def get(self, job_id: str) -> Gang | None:
        """Returns the gang of this id, ended or not."""
        return self._gangs.get(job_id)

    def owner(self, uid: str) -> Gang | None:
        """Returns the gang of the object with this uid."""
        return self._by_uid.get(uid)

    def next_number(self) -> int:
        """Returns the number of the next job that arrives, of our kinds or external."""
        self._number += 1
        return self._number - 1

    def recover(self) -> list[JobState]:
        """Returns the committed states of jobs that run or have time to live; reports jobs without a state as new."""
        self._recovered = True
        for gang in self._gangs.values():
            self._fit(gang)  # the objects that its names refer to may have been listed after it
        gangs = sorted(self._gangs.values(), key=lambda gang: gang.number or 2**63)
        known = [gang for gang in gangs if gang.stored is not None]
        self._number = max((gang.number for gang in known), default=0) + 1
        for gang in sorted((g for g in gangs if g.stored is None), key=_age):
            self._arrive(gang)
        for gang in known:
            self._catch_up_with_owner(gang)
        kept = [gang for gang in known if gang.status.phase not in TERMINAL or gang.job.ttl is not None]
        return [gang.state for gang in kept]

    def _catch_up_with_owner(self, gang: Gang) -> None:
        """Reports a request that the owner made while no controller led."""
        asked, status = gang.wanted[1] if gang.wanted else gang.job, gang.status
        if status.phase in TERMINAL:
            return
        is_aside = status.phase is Phase.SUSPENDED or status.target is Target.SUSPEND
        if _is_to_end(gang.parsed.manifest):
            self._cancel(gang)
        elif asked.suspend != is_aside:
            event: Event = Suspend("its owner") if asked.suspend else Resume("its owner")
            self._tell(JobEvent(gang.id, event))

    def see(self, resource: Resource, manifest: Manifest) -> None:
        """Records an object as it is now."""
        home = home_of(resource, manifest)
        gang = self._by_uid.get(home.uid)
        if gang is not None and not self._recovered:
            self.close(gang)
            gang = None
        if gang is not None:
            self._update(gang, manifest)
            return
        namesake = self._gangs.get(home.job_id)
        if namesake is not None:
            self._next[home.job_id] = resource, manifest
            if not namesake.version.gone:  # its end was not seen
                self.lose(namesake.home.uid)
            return
        if not manifest["metadata"].get("deletionTimestamp"):
            self._read(home, manifest)

    def leave(self, kinds: Collection[str]) -> None:
        """Leaves these kinds to another operator, except for jobs that name Windlass; all other kinds are ours."""
        self.left = frozenset(kinds)
        ignored, self._ignored = self._ignored, {}
        for resource, manifest in ignored.values():
            self.see(resource, manifest)

    def lose(self, uid: str) -> None:
        """Records that an object is gone."""
        self._refused.pop(uid, None)
        self._ignored.pop(uid, None)
        gang = self._by_uid.get(uid)
        if gang is None:
            self._next = {name: kept for name, kept in self._next.items() if kept[1]["metadata"]["uid"] != uid}
            return
        gang.version.gone = True
        if self._recovered:
            self._cancel(gang)
        else:
            self.close(gang)

    def close(self, gang: Gang) -> None:
        """Closes a gang whose object is gone and that has ended; an object of the same name may follow."""
        self._gangs.pop(gang.id, None)
        self._by_uid.pop(gang.home.uid, None)
        if gang.version.gone:
            self._changed(gang)
        if waiting := self._next.pop(gang.id, None):
            self.see(*waiting)

    # --- reading -----------------------------------------------------------------------------------

    def _read(self, home: ObjectReference, manifest: Manifest) -> None:
        parsed = registry.read(manifest, self._settings)
        if isinstance(parsed, Fault):
            self._fault(home, manifest, str(parsed))
            return
        if not is_ours(parsed.policy) or (home.resource.kind in self.left and parsed.policy.managed_by != US):
            self._ignored[home.uid] = home.resource, manifest
            return
        try:
            known = stored_state.read((manifest.get("status") or {}).get(stored_state.FIELD))
        except stored_state.UnreadableError as error:
            self._fault(home, manifest, f"status.{stored_state.FIELD} was not written by Windlass: {error}")
            return
        if self._recovered and known is not None:
            raise DeposedError(f"{home.job_id} has a state that was not known when this term began")
        gang = Gang(home, parsed, parsed.job, known.number if known else 0, stored=known)
        gang.notes.training = (manifest.get("status") or {}).get(TRAINING) or {}
        version = version_of(manifest)
        gang.version = ObjectVersion(version, version, manifest["metadata"].get("generation"))
        self._gangs[gang.id] = self._by_uid[home.uid] = gang
        if self._recovered:  # else `recover` fits it: a follower reads a job again at each of its writes
            self._fit(gang)
            self._arrive(gang)

    def _fit(self, gang: Gang) -> None:
        """Resolves the job of its manifest for the controller."""
        found = self._finish(gang.parsed)
        gang.job = job_as_placed(found.job, gang.stored.status.placement if gang.stored else None)
        gang.wanted = None if gang.job == found.job else (gang.parsed, found.job)
        gang.fit.held = "" if gang.stored else found.trouble  # the controller knows every job that has a state
        gang.fit.to_choose = found.to_choose

    def look_around(self, changed: ChangedNames) -> None:
        """Resolves names again after the cluster has changed: jobs that were held may arrive."""
        for gang in [gang for gang in self._gangs.values() if gang.fit.held]:
            self._fit(gang)
            self._arrive(gang)
        for gang in [gang for gang in self._gangs.values() if gang.fit.to_choose and not gang.fit.held]:
            if gang.status.phase not in TERMINAL:
                self._look_at_volumes(gang)
        for gang in [gang for gang in self._gangs.values() if changed.concern(gang.home.namespace)]:
            if gang.stored is not None and gang.status.phase not in TERMINAL:
                self._resolve_again(gang)

    def _resolve_again(self, gang: Gang) -> None:
        """Resolves the names in a job again: the queue of its namespace, a level of the network."""
        parsed, asked = gang.wanted or (gang.parsed, gang.job)
        found = self._finish(parsed)
        if not found.trouble and found.job != asked:
            gang.wanted = parsed, found.job
            self.catch_up(gang)

    def _look_at_volumes(self, gang: Gang) -> None:
        """Resolves again a job whose volumes were provisioned: its next start is to be near them."""
        parsed, asked = gang.wanted or (gang.parsed, gang.job)
        found = self._finish(parsed)
        if found.trouble or found.to_choose == gang.fit.to_choose:
            return
        gang.fit.to_choose = found.to_choose
        if found.job != asked:
            gang.wanted = parsed, found.job
            self.catch_up(gang)

    def _arrive(self, gang: Gang) -> None:
        gang.stored = None
        ends = _is_to_end(gang.parsed.manifest)
        if gang.fit.held and not ends:
            self._hold(gang, gang.fit.held)
            return
        gang.fit.held = ""
        gang.number = self.next_number()
        self._tell(JobArrived(gang.id, gang.number, gang.job))
        if ends:
            self._cancel(gang)

    def _hold(self, gang: Gang, why: str) -> None:
        created = Phase.CREATED.value
        self._refuse(Refusal(gang.home, gang.parsed.manifest, why, WAITING, created, lambda: gang.fit.held == why))

    def _update(self, gang: Gang, manifest: Manifest) -> None:
        # replies to our own writes may have brought this version already, without a look at its request
        if version_of(manifest) <= gang.version.read:
            return
        labels = gang.parsed.manifest["metadata"].get("labels")
        gang.learn(manifest)
        before, gang.version.read_generation = gang.version.read_generation, manifest["metadata"].get("generation")
        gang.version.read = version_of(manifest)
        if manifest["metadata"].get("deletionTimestamp") or _is_to_end(manifest):
            self._cancel(gang)
        if gang.version.read_generation == before and manifest["metadata"].get("labels") == labels:
            return
        parsed = registry.read(manifest, self._settings)
        if isinstance(parsed, Fault):
            self._fault(gang.home, manifest, f"{parsed}; the job continues unchanged")
            return
        self._respecify(gang, parsed)

    def _respecify(self, gang: Gang, parsed: ParsedJob) -> None:
        """Applies a changed spec: suspends or resumes the job, or changes it for its next start."""
        found = self._finish(parsed)
        before = gang.wanted[1] if gang.wanted else gang.job
        was_held = bool(gang.fit.held)
        gang.fit.held = found.trouble if was_held else ""
        if before.suspend != found.job.suspend:
            event: Event = Suspend("its owner") if found.job.suspend else Resume("its owner")
            self._tell(JobEvent(gang.id, event))
        gang.wanted = parsed, found.job
        self.catch_up(gang)
        if was_held:  # the controller does not know it yet
            self._arrive(gang)

    def catch_up(self, gang: Gang) -> None:
        """Changes the job in the controller to what its object requests, if the gang can change already."""
        if gang.wanted is None or not can_change(gang.state, gang.wanted[1]):
            return
        gang.respecify(*gang.wanted)
        self._tell(JobChanged(gang.id, gang.job))
        self._changed(gang)

    def _cancel(self, gang: Gang) -> None:
        if gang.fit.held and not gang.version.gone and _is_to_end(gang.parsed.manifest):
            self._arrive(gang)
        elif gang.fit.held or gang.status.phase in TERMINAL:
            if gang.version.gone:
                self.close(gang)
        elif not gang.deleted:
            gang.deleted = True
            by = (gang.parsed.manifest["metadata"].get("annotations") or {}).get(CANCEL) or "the deletion of its object"
            self._tell(JobEvent(gang.id, Cancel(by)))

    def _fault(self, home: ObjectReference, manifest: Manifest, message: str) -> None:
        generation = manifest["metadata"].get("generation") or 0
        if self._refused.get(home.uid) != generation:
            self._refused[home.uid] = generation
            never_accepted = stored_state.FIELD not in (manifest.get("status") or {})
            self._refuse(Refusal(home, manifest, message, state=Phase.FAILED.value if never_accepted else ""))


def _is_to_end(manifest: Manifest) -> bool:
    """Tells whether the object has the annotation that ends the job."""
    return CANCEL in (manifest["metadata"].get("annotations") or {})


def _age(gang: Gang) -> tuple[str, str]:
    """Returns the sort key for the order of creation, as exact as the API server reports it."""
    metadata = gang.parsed.manifest["metadata"]
    return str(metadata.get("creationTimestamp")), gang.id
