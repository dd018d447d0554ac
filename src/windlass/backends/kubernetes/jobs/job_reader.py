"""Reads the objects of our job kinds into the job store, as the watches deliver them.

An object becomes a job when it is read without a fault (`job_reports` tells its owner of one). Of two objects with one
name, one after the other, the second is read only after nothing of the first is left. A follower keeps the stored
states up to date; it reports nothing until it leads (`recover`).
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from windlass.backends.kubernetes.client.object_reference import ObjectReference, reference_to, version_of
from windlass.backends.kubernetes.client.resources import Resource
from windlass.backends.kubernetes.gangs import stored_state
from windlass.backends.kubernetes.gangs.gang import Gang, ObjectVersion
from windlass.backends.kubernetes.gangs.stored_state import TRAINING, Stored
from windlass.backends.kubernetes.jobs.job_reports import JobReports, has_cancel_annotation
from windlass.backends.kubernetes.jobs.job_specs import JobSpecs
from windlass.backends.kubernetes.jobs.job_store import JobStore
from windlass.backends.kubernetes.status.state_writes import DeposedError
from windlass.core.model.status import TERMINAL, JobState
from windlass.jobs.kubernetes.kinds import registry
from windlass.jobs.kubernetes.kinds.run_policy import US, is_ours
from windlass.jobs.kubernetes.manifest_reader import Fault
from windlass.jobs.kubernetes.parsed_job import ParsedJob
from windlass.jobs.kubernetes.settings import Settings

Manifest = Mapping[str, Any]


class JobReader:
    """Adds, changes and removes the gangs of a store. `specs` resolves jobs, `reports` reports them."""

    def __init__(self, store: JobStore, specs: JobSpecs, reports: JobReports, settings: Settings) -> None:
        self._store, self._specs, self._reports, self._settings = store, specs, reports, settings
        self._successors: dict[str, tuple[Resource, Manifest]] = {}
        """By job id: the object that follows one of the same name that has not ended yet."""
        self.foreign_kinds: frozenset[str] = frozenset()
        """Kinds that another operator handles."""
        self._foreign: dict[str, tuple[Resource, Manifest]] = {}
        """By uid: objects that are left to other operators."""
        self._leads = False

    def recover(self) -> list[JobState]:
        """Returns the committed states of jobs that run or have time to live; reports jobs without a state as new."""
        self._leads = True
        for gang in self._store:
            self._specs.resolve(gang)  # the objects that its names refer to may have been listed after it
        gangs = sorted(self._store, key=lambda gang: gang.number or 2**63)
        known = [gang for gang in gangs if gang.stored is not None]
        self._store.continue_numbers(max((gang.number for gang in known), default=0))
        for gang in sorted((g for g in gangs if g.stored is None), key=_creation_order):
            self._reports.report_arrival(gang)
        for gang in known:
            self._reports.report_missed_requests(gang)
        kept = [gang for gang in known if gang.status.phase not in TERMINAL or gang.job.ttl is not None]
        return [gang.state for gang in kept]

    def update(self, resource: Resource, manifest: Manifest) -> None:
        """Reads an object as it is now."""
        home = reference_to(resource, manifest)
        gang = self._store.owner(home.uid)
        if gang is not None and not self._leads:
            self.close(gang)
            gang = None
        if gang is not None:
            self._update(gang, manifest)
            return
        predecessor = self._store.get(home.job_id)
        if predecessor is not None:
            self._successors[home.job_id] = resource, manifest
            if not predecessor.version.gone:  # the watch has missed its deletion
                self.delete(predecessor.home.uid)
            return
        if not manifest["metadata"].get("deletionTimestamp"):
            self._add(home, manifest)

    def delete(self, uid: str) -> None:
        """Ends the job of an object that was deleted."""
        self._reports.forget_faults(uid)
        self._foreign.pop(uid, None)
        gang = self._store.owner(uid)
        if gang is None:
            kept = {name: each for name, each in self._successors.items() if each[1]["metadata"]["uid"] != uid}
            self._successors = kept
            return
        gang.version.gone = True
        if not self._leads or not self._reports.report_cancel(gang):
            self.close(gang)

    def close(self, gang: Gang) -> None:
        """Removes a gang whose object is gone and that has ended; an object of the same name may follow."""
        self._store.discard(gang)
        if gang.version.gone:
            self._specs.changed(gang)
        if successor := self._successors.pop(gang.id, None):
            self.update(*successor)

    def leave_kinds(self, kinds: Collection[str]) -> None:
        """Leaves these kinds to another operator, except for jobs that name Windlass; all other kinds are ours."""
        self.foreign_kinds = frozenset(kinds)
        foreign, self._foreign = self._foreign, {}
        for resource, manifest in foreign.values():
            self.update(resource, manifest)

    def _add(self, home: ObjectReference, manifest: Manifest) -> None:
        parsed = registry.read(manifest, self._settings)
        if isinstance(parsed, Fault):
            self._reports.report_fault(home, manifest, str(parsed))
            return
        if self._is_foreign(home.resource, parsed):
            self._foreign[home.uid] = home.resource, manifest
            return
        try:
            stored = stored_state.read((manifest.get("status") or {}).get(stored_state.FIELD))
        except stored_state.UnreadableError as error:
            fault = f"status.{stored_state.FIELD} was not written by Windlass: {error}"
            self._reports.report_fault(home, manifest, fault)
            return
        if self._leads and stored is not None:
            raise DeposedError(f"{home.job_id} has a state that was not known when this term began")
        gang = _gang(home, manifest, parsed, stored)
        self._store.add(gang)
        if self._leads:  # else `recover` resolves it: a follower reads a job again at each of its writes
            self._specs.resolve(gang)
            self._reports.report_arrival(gang)

    def _is_foreign(self, resource: Resource, parsed: ParsedJob) -> bool:
        """Tells whether another operator handles a job."""
        left_to_others = resource.kind in self.foreign_kinds and parsed.policy.managed_by != US
        return left_to_others or not is_ours(parsed.policy)

    def _update(self, gang: Gang, manifest: Manifest) -> None:
        # replies to our own writes may have brought this version already, without a look at its request
        if version_of(manifest) <= gang.version.read:
            return
        labels = gang.parsed.manifest["metadata"].get("labels")
        gang.learn(manifest)
        before, gang.version.read_generation = gang.version.read_generation, manifest["metadata"].get("generation")
        gang.version.read = version_of(manifest)
        is_to_end = manifest["metadata"].get("deletionTimestamp") or has_cancel_annotation(manifest)
        if is_to_end and not self._reports.report_cancel(gang) and gang.version.gone:
            self.close(gang)
        if gang.version.read_generation == before and manifest["metadata"].get("labels") == labels:
            return
        parsed = registry.read(manifest, self._settings)
        if isinstance(parsed, Fault):
            self._reports.report_fault(gang.home, manifest, f"{parsed}; the job continues unchanged")
            return
        self._specs.apply(gang, parsed)


def _gang(home: ObjectReference, manifest: Manifest, parsed: ParsedJob, stored: Stored | None) -> Gang:
    gang = Gang(home, parsed, parsed.job, stored.number if stored else 0, stored=stored)
    gang.notes.training = (manifest.get("status") or {}).get(TRAINING) or {}
    version = version_of(manifest)
    gang.version = ObjectVersion(version, version, manifest["metadata"].get("generation"))
    return gang


def _creation_order(gang: Gang) -> tuple[str, str]:
    """Returns the sort key for the order of creation, as exact as the API server reports it."""
    metadata = gang.parsed.manifest["metadata"]
    return str(metadata.get("creationTimestamp")), gang.id
