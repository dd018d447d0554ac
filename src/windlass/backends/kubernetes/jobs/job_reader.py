"""Reads the objects of our job kinds into the job store, as the watches deliver them.

An object becomes a job when it is read without a fault (`job_reports` tells its owner of one). A job whose spec becomes
faulty continues with its last readable spec (`gangs.readable_spec`). Of two objects with one name, one after the other,
the second is read only after nothing of the first is left. A follower keeps the stored states up to date; it reports
nothing until it leads (`recover`).

A job without a state of ours whose status another operator has written is no new job: it continues as that operator has
left it (`job_takeover`).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import Any

from windlass.backends.kubernetes.client.object_reference import ObjectReference, reference_to, version_of
from windlass.backends.kubernetes.client.owners import OwnerKey
from windlass.backends.kubernetes.client.resources import Resource
from windlass.backends.kubernetes.gangs import readable_spec, stored_state
from windlass.backends.kubernetes.gangs.gang import Gang, ObjectVersion
from windlass.backends.kubernetes.gangs.stored_state import TRAINING, Stored
from windlass.backends.kubernetes.jobs.job_reports import JobReports, has_cancel_annotation
from windlass.backends.kubernetes.jobs.job_specs import JobSpecs
from windlass.backends.kubernetes.jobs.job_store import JobStore
from windlass.backends.kubernetes.status.job_announcer import announced_topics
from windlass.core.model.status import TERMINAL, JobState, Status
from windlass.jobs.kubernetes.job_patches import NOTEBOOK, is_stopped
from windlass.jobs.kubernetes.kinds import registry
from windlass.jobs.kubernetes.kinds.run_policy import WINDLASS_OPERATOR, is_ours
from windlass.jobs.kubernetes.manifest_reader import Fault
from windlass.jobs.kubernetes.parsed_job import ParsedJob
from windlass.jobs.kubernetes.pods.network_pods import NO_NODES
from windlass.jobs.kubernetes.settings import Settings
from windlass.jobs.kubernetes.status.conditions import conditions_of
from windlass.jobs.kubernetes.status.diagnosis_condition import read_wait_verdict
from windlass.jobs.kubernetes.status.foreign_status import ContradictoryStatusError, has_ended
from windlass.jobs.kubernetes.train_runtimes import NOT_FOUND

Manifest = Mapping[str, Any]
_NOT_KNOWN = object()
"""In place of a state that is in no object: whatever is there is another writer's."""
_CONTINUES = "; the job continues unchanged"


class JobReader:
    """Reader of job objects, which adds, changes and removes the gangs of a store.

    `specs` resolves jobs, `reports` reports them. `adopt` is called with each gang that has a state and becomes
    readable only after the term has begun.
    """

    def __init__(
        self,
        store: JobStore,
        specs: JobSpecs,
        reports: JobReports,
        settings: Settings,
        adopt: Callable[[Gang], None],
    ) -> None:
        self._store, self._specs, self._reports, self._settings = store, specs, reports, settings
        self._adopt, specs.arrive = adopt, self._arrive
        self._successors: dict[str, tuple[Resource, Manifest]] = {}
        """By job id: the object that follows one of the same name that has not ended yet."""
        self.foreign_kinds: frozenset[str] = frozenset()
        """Kinds that another operator handles."""
        self._foreign: dict[str, tuple[Resource, Manifest]] = {}
        """By uid: objects that are left to other operators."""
        self._waiting: dict[str, tuple[Resource, Manifest]] = {}
        """By uid: TrainJobs whose runtime does not exist yet."""
        self._without_nodes: dict[str, tuple[Resource, Manifest]] = {}
        """By uid: jobs whose network profile waits until the nodes are known."""
        self._states_aside: dict[str, Stored] = {}
        """By uid: states of objects that are no jobs at present: faulty ones, and those left to other operators."""
        self.on_foreign_state: Callable[[Gang], None] = lambda _gang: None
        """Called with a gang of which another writer has changed the state in the object."""
        self.left_by_others: Callable[[Gang], Status | None] = lambda _gang: None
        """Returns the status of a job that another operator has run; None: it is new. Raises ContradictoryStatusError.
        """
        self._leads = False

    def recover(self) -> list[JobState]:
        """Returns the committed states of jobs that run or have time to live. `begin` follows it."""
        self._leads = True
        for gang in self._store:
            self._specs.resolve(gang)  # the objects that its names refer to may have been listed after it
        gangs = sorted(self._store, key=lambda gang: gang.number or 2**63)
        known = [gang for gang in gangs if gang.stored is not None]
        numbers = [gang.number for gang in known] + [stored.number for stored in self._states_aside.values()]
        self._store.resume_numbering(numbers)
        for gang in known:
            self._reports.report_missed_requests(gang)
        return [gang.state for gang in known if is_kept(gang.state)]

    def begin(self, resume: Callable[[Gang], None]) -> list[JobState]:
        """Reports jobs without a state as new, except for those that another operator has run: returns their states.

        `resume` is called with each of these, once all that is known of the cluster counts.
        """
        taken: list[Gang] = []
        for gang in sorted((gang for gang in self._store if gang.stored is None), key=_creation_order):
            if self._take_over(gang):
                resume(gang)
                self._reports.report_missed_requests(gang)
                taken.append(gang)
            elif gang in self._store:
                self._reports.report_arrival(gang)
        return [gang.state for gang in taken if is_kept(gang.state)]

    def update(self, resource: Resource, manifest: Manifest) -> None:
        """Reads an object as it is now."""
        reference = reference_to(resource, manifest)
        gang = self._store.get_owner(reference.owner_key)
        if gang is not None and self._leads:
            self._update(gang, manifest)
            return
        if gang is not None:
            self.close(gang)
        predecessor = self._store.get(reference.job_id)
        if predecessor is not None:
            self._successors[reference.job_id] = resource, manifest
            if not predecessor.version.gone:  # the watch has missed its deletion
                self.delete(predecessor.reference.owner_key)
            return
        if not manifest["metadata"].get("deletionTimestamp"):
            self._add(reference, manifest, gang)

    def delete(self, key: OwnerKey) -> None:
        """Ends the job of an object that was deleted."""
        uid = key.uid
        self._reports.forget_faults(uid)
        self._foreign.pop(uid, None)
        self._waiting.pop(uid, None)
        self._without_nodes.pop(uid, None)
        self._states_aside.pop(uid, None)
        gang = self._store.get_owner(key)
        if gang is None:
            kept = {name: each for name, each in self._successors.items() if each[1]["metadata"]["uid"] != uid}
            self._successors = kept
            return
        gang.version.gone = True
        if not self._leads or not self._reports.report_cancel(gang):
            self.close(gang)

    def _release(self, gang: Gang) -> None:
        """Ends the job of an object that is deleted without its pods, which go on."""
        gang.released = gang.version.gone = True
        if not self._reports.report_cancel(gang):
            self.close(gang)

    def close(self, gang: Gang) -> None:
        """Removes a gang whose object is gone and that has ended; an object of the same name may follow."""
        self._store.discard(gang)
        if gang.version.gone and self._leads:  # a follower may not delete its pods
            self._specs.changed(gang)
        if successor := self._successors.pop(gang.id, None):
            self.update(*successor)

    def leave_kinds(self, kinds: Collection[str]) -> None:
        """Leaves these kinds to another operator, except for jobs that name Windlass; all other kinds are ours."""
        self.foreign_kinds = frozenset(kinds)
        foreign, self._foreign = self._foreign, {}
        for resource, manifest in foreign.values():
            self.update(resource, manifest)

    def read_waiting(self, runtimes: Collection[str]) -> None:
        """Reads again the TrainJobs that wait for a runtime of one of these names."""
        for uid, (resource, manifest) in list(self._waiting.items()):
            if (manifest["spec"].get("runtimeRef") or {}).get("name") in runtimes:
                self._reports.forget_faults(uid)
                self.update(resource, manifest)

    def read_without_nodes(self) -> None:
        """Reads again the jobs that wait for the first nodes of the cluster."""
        for uid, (resource, manifest) in list(self._without_nodes.items()):
            self._reports.forget_faults(uid)
            self.update(resource, manifest)

    def _add(self, reference: ObjectReference, manifest: Manifest, before: Gang | None = None) -> None:
        """Makes an object a gang. `before`: the gang that a follower had made of an earlier version."""
        stored, unreadable = _state_of(manifest)
        if self._leads and (known := self._states_aside.get(reference.uid)) is not None:
            stored, unreadable = known, ""  # whatever another writer has put there since
        found = registry.read(manifest, self._settings)
        parsed = found if isinstance(found, ParsedJob) else None
        self._waiting.pop(reference.uid, None)
        self._without_nodes.pop(reference.uid, None)
        last_readable = ""
        if isinstance(found, Fault):
            last_readable = readable_spec.stored_text(manifest) or (_readable_text(before) if before else "")
            parsed = readable_spec.read(manifest, last_readable, self._settings) if stored else None
            if stored is None and has_ended(manifest):
                return  # by another operator, whose rules have accepted the spec
            if found.reason == NOT_FOUND and parsed is None:
                self._waiting[reference.uid] = reference.resource, manifest
            if found.reason == NO_NODES and parsed is None:
                self._without_nodes[reference.uid] = reference.resource, manifest
            self._reports.report_fault(reference, manifest, f"{found}{_CONTINUES if parsed else ''}", found.reason)
        if parsed is None or self._is_foreign(reference.resource, parsed, stored):
            self._put_aside(reference, manifest, stored, foreign=parsed is not None)
        elif unreadable:
            self._reports.report_fault(reference, manifest, unreadable)
        else:
            if parsed is found:
                self._reports.forget_faults(reference.uid)
            gang = _gang(reference, manifest, parsed, stored)
            _restore_started_spec(gang, manifest, self._settings)
            gang.last_readable = last_readable
            self._enter(gang)

    def _put_aside(
        self, reference: ObjectReference, manifest: Manifest, stored: Stored | None, *, foreign: bool
    ) -> None:
        """Keeps an object that is no job at present, with the state that it had when it was put aside."""
        if foreign:
            self._foreign[reference.uid] = reference.resource, manifest
        if stored is not None and not (self._leads and reference.uid in self._states_aside):
            self._states_aside[reference.uid] = stored

    def _enter(self, gang: Gang) -> None:
        """Adds a gang. One with a state is taken over as it is: its kind may be served only since this term began."""
        self._states_aside.pop(gang.reference.uid, None)
        self._store.add(gang)
        if not self._leads:  # `recover` resolves it: a follower reads a job again at each of its writes
            return
        self._specs.resolve(gang)
        self._arrive(gang)

    def _arrive(self, gang: Gang) -> None:
        """Reports a job that the controller does not know: as new, or in the state that it has already."""
        if gang.stored is not None or self._take_over(gang):
            self._adopt(gang)
            self._reports.report_missed_requests(gang)
        elif gang in self._store:
            self._reports.report_arrival(gang)

    def _take_over(self, gang: Gang) -> bool:
        """Gives a job that another operator has run the state in which that operator has left it.

        Returns whether it has run. A job whose status contradicts itself leaves the store, and its owner learns why.
        """
        try:
            status = self.left_by_others(gang)
        except ContradictoryStatusError as error:
            self._store.discard(gang)
            self._reports.report_fault(gang.reference, gang.parsed.manifest, str(error))
            return False
        if status is None:
            return False
        gang.number = self._store.allocate_number()
        gang.stored = Stored(gang.number, 0, status)
        gang.notes.needs_write = gang.has_unwritten_state
        self._specs.resolve(gang)
        return True

    def _is_foreign(self, resource: Resource, parsed: ParsedJob, stored: Stored | None) -> bool:
        """Tells whether another operator handles a job. A job with a state is ours, whatever was installed since."""
        left_to_others = (
            resource.kind in self.foreign_kinds and parsed.run_policy.managed_by != WINDLASS_OPERATOR and stored is None
        )
        return left_to_others or not is_ours(parsed.run_policy)

    def _update(self, gang: Gang, manifest: Manifest) -> None:
        # replies to our own writes may have brought this version already, without a look at its request
        if version_of(manifest) <= gang.version.read:
            return
        metadata = gang.parsed.manifest["metadata"]
        if gang.learn(manifest) and gang.has_foreign_state:
            self.on_foreign_state(gang)
        before, gang.version.read_generation = gang.version.read_generation, manifest["metadata"].get("generation")
        gang.version.read = version_of(manifest)
        if is_orphaned(manifest):
            self._release(gang)
            return
        is_to_end = manifest["metadata"].get("deletionTimestamp") or has_cancel_annotation(manifest)
        if is_to_end and not self._reports.report_cancel(gang) and gang.version.gone:
            self.close(gang)
        has_labels = manifest["metadata"].get("labels") == metadata.get("labels")
        if gang.version.read_generation == before and has_labels and not _is_switched(gang, manifest):
            return
        parsed = registry.read(manifest, self._settings)
        if isinstance(parsed, Fault):
            self._reports.report_fault(gang.reference, manifest, f"{parsed}{_CONTINUES}")
            gang.last_readable = _readable_text(gang, metadata)
            gang.notes.needs_write = True
            self._specs.changed(gang)
            return
        self._reports.forget_faults(gang.reference.uid)
        gang.notes.needs_write |= bool(gang.last_readable)
        gang.last_readable = ""
        started = gang.started_spec or readable_spec.text_of(gang.parsed, metadata)
        self._specs.apply(gang, parsed)
        if gang.requested_spec is not None and gang.started_spec != started:
            gang.started_spec, gang.notes.needs_write = started, True
            self._specs.changed(gang)


def _is_switched(gang: Gang, manifest: Manifest) -> bool:
    """Tells whether a Notebook was stopped or started: its annotation changes neither generation nor labels."""
    requested = gang.requested_spec[0] if gang.requested_spec else gang.parsed
    return gang.parsed.kind == NOTEBOOK and is_stopped(manifest) != requested.run_policy.suspend


def is_orphaned(manifest: Manifest) -> bool:
    """Tells whether an object is being deleted without the objects that it owns (propagationPolicy Orphan)."""
    about = manifest["metadata"]
    return bool(about.get("deletionTimestamp")) and "orphan" in (about.get("finalizers") or ())


def is_kept(state: JobState) -> bool:
    """Tells whether the controller is to know a recovered job: it has not ended, or its time to live is counted."""
    return state.status.phase not in TERMINAL or state.job.ttl is not None


def _state_of(manifest: Manifest) -> tuple[Stored | None, str]:
    """Returns the state in an object, if it has one, and why it cannot be read."""
    try:
        return stored_state.read((manifest.get("status") or {}).get(stored_state.FIELD)), ""
    except stored_state.UnreadableError as error:
        return None, f"status.{stored_state.FIELD} was not written by Windlass: {error}"


def _readable_text(gang: Gang, metadata: Manifest | None = None) -> str:
    """Returns the spec that the owner last requested without a fault, as a text for the status."""
    parsed = gang.requested_spec[0] if gang.requested_spec else gang.parsed
    return gang.last_readable or readable_spec.text_of(parsed, metadata or gang.parsed.manifest["metadata"])


def _gang(reference: ObjectReference, manifest: Manifest, parsed: ParsedJob, stored: Stored | None) -> Gang:
    gang = Gang(reference, parsed, parsed.job, stored.number if stored else 0, stored=stored)
    gang.notes.training = (manifest.get("status") or {}).get(TRAINING) or {}
    gang.notes.wait_verdict = read_wait_verdict(conditions_of(dict(manifest)))
    gang.notes.announced = announced_topics(gang)
    version = version_of(manifest)
    gang.version = ObjectVersion(version, version, manifest["metadata"].get("generation"))
    written, unreadable = _state_of(manifest)
    is_known = written == stored and not unreadable
    gang.version.committed = (manifest.get("status") or {}).get(stored_state.FIELD) if is_known else _NOT_KNOWN
    return gang


def _restore_started_spec(gang: Gang, manifest: Manifest, settings: Settings) -> None:
    """Gives a gang that holds nodes the spec with which it was started, and keeps the present one for later."""
    if gang.status.placement is None:
        return
    text = readable_spec.stored_text(manifest, readable_spec.STARTED_FIELD)
    started = readable_spec.read(manifest, text, settings)
    if started is not None:
        gang.requested_spec, gang.parsed, gang.started_spec = (gang.parsed, gang.job), started, text


def _creation_order(gang: Gang) -> tuple[str, str]:
    """Returns the sort key for the order of creation, as exact as the API server reports it."""
    metadata = gang.parsed.manifest["metadata"]
    return str(metadata.get("creationTimestamp")), gang.id
