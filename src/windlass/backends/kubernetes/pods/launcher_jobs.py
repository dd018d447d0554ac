"""Batch Jobs that create one pod of a gang: the launchers of MPIJobs v2beta1."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from windlass.backends.kubernetes.client.objects import Pod
from windlass.backends.kubernetes.client.owners import OwnerKey, owner_of
from windlass.backends.kubernetes.pods.pod_store import PodStore
from windlass.jobs.kubernetes.bounded_integers import MAX_COUNT, parse_integer

Manifest = dict[str, Any]
_REMEMBERED = 10_000
"""Deleted Jobs whose owners are remembered: their pods may end after them."""


class LauncherJobs:
    """Launchers' Jobs by the key of their owner, and the owners by the keys of the Jobs."""

    def __init__(self, pods: PodStore) -> None:
        self._pods = pods
        self._jobs: dict[OwnerKey, Manifest] = {}
        self._owners: dict[OwnerKey, OwnerKey] = {}
        self._deleted: dict[OwnerKey, None] = {}
        """Keys of deleted Jobs, the earliest first."""

    def see(self, job: Manifest, *, there: bool) -> OwnerKey | None:
        """Records a Job as it is now, or as it was when it was deleted. Returns its owner's key; None: no owner."""
        key, owner = _key_of(job), owner_of(job)
        if owner is not None and there:
            self._jobs[owner], self._owners[key] = job, owner
        elif key in self._owners:
            self._deleted[key] = None
            if owner is not None and (held := self._jobs.get(owner)) and held["metadata"]["uid"] == key.uid:
                del self._jobs[owner]
        while len(self._deleted) > _REMEMBERED:
            earliest = next(iter(self._deleted))
            del self._deleted[earliest], self._owners[earliest]
        return owner

    def of(self, owner: OwnerKey) -> tuple[Manifest, ...]:
        """Returns the Job of an object, if it has one."""
        job = self._jobs.get(owner)
        return () if job is None else (job,)

    def unended(self, owner: OwnerKey) -> tuple[Manifest, ...]:
        """Returns the Job of an object unless it has ended; an ended Job stays, with its pods and their logs."""
        return tuple(job for job in self.of(owner) if not has_ended(job))

    def failed_pods(self, owner: OwnerKey) -> int:
        """Returns how many pods of an object's Job have failed, as the Job controller counts them."""
        counts = [(job.get("status") or {}).get("failed") for job in self.of(owner)]
        return sum(parse_integer(count, 0, MAX_COUNT) or 0 for count in counts)

    def owner(self, job: OwnerKey) -> OwnerKey | None:
        """Returns the key of the object that owns a Job, also after its deletion; None if there is none."""
        return self._owners.get(job)

    def pods(self, owner: OwnerKey) -> Iterator[Pod]:
        """Yields the pods that the Job of an object has created."""
        for job in self.of(owner):
            yield from self._pods.owned(_key_of(job))


def failure_of(job: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """Returns the Failed condition of a Job: such a Job creates no more pods."""
    listed = (job.get("status") or {}).get("conditions") or ()
    return next((each for each in listed if each["type"] == "Failed" and each["status"] == "True"), None)


def _key_of(job: Mapping[str, Any]) -> OwnerKey:
    return OwnerKey(job["metadata"]["namespace"], job["metadata"]["uid"])


def has_ended(job: Mapping[str, Any]) -> bool:
    """Tells whether a Job is complete or has failed."""
    listed = (job.get("status") or {}).get("conditions") or ()
    return any(each["type"] in ("Complete", "Failed") and each["status"] == "True" for each in listed)
