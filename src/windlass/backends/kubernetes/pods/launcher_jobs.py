"""Batch Jobs that create one pod of a gang: the launchers of MPIJobs v2beta1."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from windlass.backends.kubernetes.client.objects import Pod
from windlass.backends.kubernetes.client.owners import owner_uid
from windlass.backends.kubernetes.pods.pod_store import PodStore

Manifest = dict[str, Any]
_REMEMBERED = 10_000
"""Deleted Jobs whose owners are remembered: their pods may end after them."""


class LauncherJobs:
    """Launchers' Jobs by the uid of their owner, and by their own uid."""

    def __init__(self, pods: PodStore) -> None:
        self._pods = pods
        self._jobs: dict[str, Manifest] = {}
        self._owners: dict[str, str] = {}
        self._deleted: dict[str, None] = {}
        """Uids of deleted Jobs, the earliest first."""

    def see(self, job: Manifest, *, there: bool) -> str:
        """Records a Job as it is now, or as it was when it was deleted. Returns its owner's uid; "": no owner."""
        uid, owner = job["metadata"]["uid"], owner_uid(job)
        if owner and there:
            self._jobs[owner], self._owners[uid] = job, owner
        elif uid in self._owners:
            self._deleted[uid] = None
            if (held := self._jobs.get(owner)) and held["metadata"]["uid"] == uid:
                del self._jobs[owner]
        while len(self._deleted) > _REMEMBERED:
            earliest = next(iter(self._deleted))
            del self._deleted[earliest], self._owners[earliest]
        return owner

    def of(self, owner: str) -> tuple[Manifest, ...]:
        """Returns the Job of an object, if it has one."""
        job = self._jobs.get(owner)
        return () if job is None else (job,)

    def unended(self, owner: str) -> tuple[Manifest, ...]:
        """Returns the Job of an object unless it has ended; an ended Job stays, with its pods and their logs."""
        return tuple(job for job in self.of(owner) if not _holds(job, "Complete", "Failed"))

    def owner(self, job: str) -> str:
        """Returns the uid of the object that owns a Job, also after its deletion; "" if there is none."""
        return self._owners.get(job, "")

    def pods(self, owner: str) -> Iterator[Pod]:
        """Yields the pods that the Job of an object has created."""
        for job in self.of(owner):
            yield from self._pods.owned(job["metadata"]["uid"])


def failure_of(job: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """Returns the Failed condition of a Job: such a Job creates no more pods."""
    listed = (job.get("status") or {}).get("conditions") or ()
    return next((each for each in listed if each["type"] == "Failed" and each["status"] == "True"), None)


def _holds(job: Mapping[str, Any], *kinds: str) -> bool:
    listed = (job.get("status") or {}).get("conditions") or ()
    return any(each["type"] in kinds and each["status"] == "True" for each in listed)
