"""Reads the Events of pods that do not start, where neither the pods nor the operator know an obstacle.

Only attempts that wait for longer than a short time are looked at: a few jobs a round, a few pods of each.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator, Sequence
from dataclasses import dataclass

from windlass.backends.errors import BackendError
from windlass.backends.kubernetes.backend import KubernetesBackend
from windlass.backends.kubernetes.client.objects import Pod
from windlass.backends.kubernetes.client.pod_events import PodEvent
from windlass.backends.kubernetes.gangs.event_obstacles import EventObstacle, find_obstacle
from windlass.backends.kubernetes.gangs.gang import Gang
from windlass.backends.kubernetes.status.job_waits import needs_events

_JOBS_PER_ROUND, _PODS_PER_JOB = 4, 4
_ROUND_S = 10.0
"""Seconds for all Events of a round: waits of other jobs are diagnosed after it."""


@dataclass(slots=True)
class UnstartedAttempt:
    """An attempt whose pods do not start. `since` and `read_at` in seconds of the event loop."""

    attempt: int
    since: float
    read_at: float = float("-inf")
    reads: int = 0


class UnstartedPods:
    """Reader of Events. `list_events` returns those of an object, by namespace and uid.

    An attempt is read once it has waited for `after_s`, and then every `after_s` at most; one with a verdict, which
    an earlier leader has shown, is read at once. An error is reported when it differs from the last one.
    """

    def __init__(
        self,
        backend: KubernetesBackend,
        list_events: Callable[[str, str], Awaitable[Sequence[PodEvent]]],
        after_s: float,
    ) -> None:
        self._backend, self._list_events, self._after_s = backend, list_events, after_s
        self._unstarted: dict[str, UnstartedAttempt] = {}
        self._trouble = ""

    def since(self, job_id: str, now: float) -> float:
        """Returns since when an attempt of a job does not start; `now` if it is not known to wait."""
        known = self._unstarted.get(job_id)
        return now if known is None else known.since

    def is_unread(self, job_id: str) -> bool:
        """Tells whether the Events of an attempt that does not start were never read."""
        known = self._unstarted.get(job_id)
        return known is not None and not known.reads

    async def look(self, now: float) -> None:
        """Looks at all jobs once, and reads Events of a few. `now`: seconds of a steady clock."""
        # 1. which attempts do not start, and since when
        before, self._unstarted = self._unstarted, {}
        for gang in list(self._backend.jobs):
            if needs_events(gang):
                self._unstarted[gang.id] = _noted(before.get(gang.id), gang.status.generation, now)
            else:
                gang.notes.event_obstacle = None
        # 2. the obstacles of those whose Events were not read for the longest time
        due = sorted(self._due(now), key=lambda each: each[1].read_at)[:_JOBS_PER_ROUND]
        try:
            async with asyncio.timeout(_ROUND_S):
                for gang, known in due:
                    known.read_at = now
                    await self._read(gang, known)
        except TimeoutError:
            self._report("the rest is read in the next round", f"Events of pods are not read within {_ROUND_S:g} s")

    def _due(self, now: float) -> Iterator[tuple[Gang, UnstartedAttempt]]:
        for job_id, known in self._unstarted.items():
            gang = self._backend.jobs.get(job_id)
            if gang is None or now - known.read_at < self._after_s:
                continue
            if now - known.since >= self._after_s or gang.notes.wait_verdict is not None:
                yield gang, known

    async def _read(self, gang: Gang, known: UnstartedAttempt) -> None:
        """Notes the first obstacle that the Events of a job's pods name, or that they name none."""
        found: EventObstacle | None = None
        known.reads += 1
        try:
            for uid in self._objects(gang, known):
                events = await self._list_events(gang.reference.namespace, uid)
                if (found := find_obstacle(known.attempt, uid, events)) is not None:
                    break
        except BackendError as error:
            self._report(str(error), f"Events about pods of {gang.id} cannot be read")
            return
        self._trouble = ""
        gang.notes.event_obstacle = found

    def _report(self, error: str, subject: str) -> None:
        """Reports an error that differs from the last one."""
        if error != self._trouble:
            self._trouble = error
            self._backend.on_trouble(f"{subject}: {error}")

    def _objects(self, gang: Gang, known: UnstartedAttempt) -> Sequence[str]:
        """Returns uids of what is read next: the object with the last obstacle, a launcher's Job, then pods in turn."""
        run, last = gang.run, gang.notes.event_obstacle
        if run is None:
            return ()
        waiting = [pod.metadata.uid for pod in run.pods.all() if _is_unstarted(pod)]
        start = known.reads * _PODS_PER_JOB % max(1, len(waiting))
        chosen = [*waiting[start:], *waiting[:start]][:_PODS_PER_JOB]
        if any(run.pods.get(number) is None for number in run.made_by_others):
            jobs = self._backend.launchers.unended(gang.reference.owner_key)
            chosen = [*(job["metadata"]["uid"] for job in jobs), *chosen]
        is_known = last is not None and last.attempt == known.attempt and last.about in waiting
        return list(dict.fromkeys([last.about, *chosen] if last is not None and is_known else chosen))


def _noted(before: UnstartedAttempt | None, attempt: int, now: float) -> UnstartedAttempt:
    return before if before is not None and before.attempt == attempt else UnstartedAttempt(attempt, now)


def _is_unstarted(pod: Pod) -> bool:
    return pod.status.phase == "Pending" and not pod.metadata.deletion_timestamp
