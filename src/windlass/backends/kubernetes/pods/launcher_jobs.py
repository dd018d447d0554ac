"""Batch Jobs that stand beside a gang and make one of its pods: the launchers of MPIJobs v2beta1."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from windlass.backends.kubernetes.client.objects import Pod
from windlass.backends.kubernetes.client.owners import owner_uid
from windlass.backends.kubernetes.pods.pod_store import PodStore

Manifest = dict[str, Any]


class LauncherJobs:
    """Known by the uid of the object that owns the Job, and by the Job's own."""

    def __init__(self, pods: PodStore) -> None:
        self._pods = pods
        self._jobs: dict[str, Manifest] = {}
        self._owners: dict[str, str] = {}

    def see(self, job: Manifest, *, there: bool) -> str:
        """A Job as it is now, or was at last. Returns the uid of its owner, "" if nobody owns it."""
        uid, owner = job["metadata"]["uid"], owner_uid(job)
        if owner and there:
            self._jobs[owner], self._owners[uid] = job, owner
        elif self._owners.pop(uid, "") and (held := self._jobs.get(owner)) and held["metadata"]["uid"] == uid:
            del self._jobs[owner]
        return owner

    def of(self, owner: str) -> tuple[Manifest, ...]:
        """The Job of an object, if it has one."""
        job = self._jobs.get(owner)
        return () if job is None else (job,)

    def unended(self, owner: str) -> tuple[Manifest, ...]:
        """The same, while it may yet run something: one that has ended stays, with its pods and their logs."""
        return tuple(job for job in self.of(owner) if not _holds(job, "Complete", "Failed"))

    def owner(self, job: str) -> str:
        """Whose Job this is, "" if it is nobody's."""
        return self._owners.get(job, "")

    def pods(self, owner: str) -> Iterator[Pod]:
        """The pods that the Job of an object has made."""
        for job in self.of(owner):
            yield from self._pods.owned(job["metadata"]["uid"])


def failure_of(job: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """The condition of a Job that has failed: it creates no more pods."""
    listed = (job.get("status") or {}).get("conditions") or ()
    return next((each for each in listed if each["type"] == "Failed" and each["status"] == "True"), None)


def _holds(job: Mapping[str, Any], *kinds: str) -> bool:
    listed = (job.get("status") or {}).get("conditions") or ()
    return any(each["type"] in kinds and each["status"] == "True" for each in listed)
