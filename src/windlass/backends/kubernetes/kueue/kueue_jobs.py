"""The Workloads of the jobs in queues of Kueue: what they say about a job, and what the job makes of them."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import UTC, datetime

import orjson

from windlass.backends.kubernetes.client.api_errors import ApiError
from windlass.backends.kubernetes.client.coalescing_writer import CoalescingWriter
from windlass.backends.kubernetes.client.connection import Connection
from windlass.backends.kubernetes.client.object_cache import Change, apply_changes
from windlass.backends.kubernetes.client.object_reference import job_id
from windlass.backends.kubernetes.cluster.job_resolution import ResolvedJob
from windlass.backends.kubernetes.gangs.gang import Gang
from windlass.backends.kubernetes.kueue.workload_actions import (
    JobFacts,
    WorkloadAction,
    next_action,
    reserves_quota,
    status_after,
)
from windlass.backends.kubernetes.kueue.workload_object import (
    FLAVORS,
    WORKLOADS,
    kueue_queue,
    workload_name,
    workload_object,
)
from windlass.backends.kubernetes.kueue.workload_state import (
    AdmissionPhase,
    KueueAdmission,
    admitted_job,
    read_admission,
)
from windlass.core.model.moments import format_moment_utc
from windlass.core.model.status import TERMINAL, Phase
from windlass.jobs.kubernetes.kinds.trainingjob import KIND
from windlass.jobs.kubernetes.labels import KUEUE_QUEUE, OURS
from windlass.jobs.kubernetes.manifest_reader import Manifest
from windlass.jobs.kubernetes.parsed_job import ParsedJob

_PODS_HASH = f"{OURS}pods-hash"
"""Annotation of a Workload: a hash of the pods that the job had when it was created."""
_NO_WORKLOAD = KueueAdmission(AdmissionPhase.WAITING, "it has no Workload yet")
_SETTLING_S = 0.05
"""Seconds for which changes of one job are collected before its Workload is written."""


class KueueJobs:
    """The jobs in queues of Kueue. `gang_of` finds a gang by job id; `changed` is called with a job id.

    Its functions that write run only while this process leads (`begin`).
    """

    def __init__(
        self,
        connection: Connection,
        gang_of: Callable[[str], Gang | None],
        changed: Callable[[str], None],
        on_trouble: Callable[[str], None],
        now: Callable[[], int],
    ) -> None:
        self._connection, self._gang_of, self._changed, self._now = connection, gang_of, changed, now
        self._workloads: dict[tuple[str, str], Manifest] = {}
        self._deleted: set[tuple[str, str]] = set()
        """Workloads of jobs that were seen to be deleted: one that is only not listed yet is none of them."""
        self._flavors: dict[str, Manifest] = {}
        self._ids: dict[tuple[str, str], str] = {}
        """Job ids by namespace and name of the Workload."""
        self._known: set[str] = set()
        """The same job ids."""
        self._begins: dict[str, asyncio.TimerHandle] = {}
        """Alarms at the begin times of jobs, by id: before them a job has no Workload, which would hold quota."""
        self._leads = False
        self.is_served = False
        """Whether the cluster has Kueue."""
        self._writer: CoalescingWriter[str] = CoalescingWriter(
            self._write, on_trouble, delay=_SETTLING_S, every=_SETTLING_S
        )

    def begin(self) -> None:
        """Begins to write: this process leads."""
        self._leads = True
        for known in self._known:
            self.mark(known)

    def see_served(self, *, is_served: bool) -> None:
        """Notes whether the cluster has Kueue: its definitions may be installed and removed at any time."""
        self.is_served = is_served
        for known in tuple(self._known):
            self._changed(known)
            self.mark(known)

    def see_workloads(self, changes: Sequence[Change[Manifest]]) -> None:
        """Handles changes of Workloads."""
        apply_changes(self._workloads, changes, _key)
        for change in changes:
            key = _key(change.object)
            if (known := self._ids.get(key)) is not None:
                (self._deleted.add if change.kind == "deleted" else self._deleted.discard)(key)
                self._changed(known)
                self.mark(known)

    def see_flavors(self, changes: Sequence[Change[Manifest]]) -> None:
        """Handles changes of ResourceFlavors, for which a job may wait."""
        apply_changes(self._flavors, changes, lambda flavor: str(flavor["metadata"]["name"]))
        for known in tuple(self._known):
            self._changed(known)

    def fit(self, parsed: ParsedJob, found: ResolvedJob) -> ResolvedJob:
        """Returns the job as Kueue admits it: on hold before, on the nodes of its flavors after its admission.

        A job that Kueue evicts, or that loses its quota, is suspended until it holds no nodes; then it waits again.
        """
        queue = kueue_queue(parsed)
        if not queue or not parsed.uid:
            return found
        known = self._remember(parsed)
        if not self.is_served:
            text = f"its label {KUEUE_QUEUE} names a queue of Kueue, which this cluster lacks: remove the label"
            return replace(found, job=replace(found.job, hold=found.job.hold or text))
        self.mark(known)
        gang = self._gang_of(known)
        admission = self._admission(parsed)
        if admission.phase is AdmissionPhase.ADMITTED:
            return replace(found, job=admitted_job(found.job, admission))
        if gang is not None and _facts(gang).holds_nodes:
            # the gang keeps its nodes until it has stopped
            must_stop = admission.phase is AdmissionPhase.EVICTED or self._has_lost_quota(parsed)
            return replace(found, job=replace(found.job, suspend=found.job.suspend or must_stop))
        why = admission.message or "it is not admitted yet"
        if parsed.job.begin is not None and self._now() < parsed.job.begin:
            why = f"it enters the queue at its begin time {format_moment_utc(parsed.job.begin)}"
        text = f"Kueue has not admitted it in the queue {queue}: {why}"
        return replace(found, job=replace(found.job, hold=found.job.hold or text))

    def mark(self, known: str) -> None:
        """Notes that the Workload of a job may have to be written."""
        if self._leads and self.is_served and known in self._known:
            self._writer.mark(known)

    def see_committed(self, known: str) -> None:
        """Notes that the state of a job was written: a job that has stopped may wait for Kueue again."""
        if known in self._known:
            self._changed(known)
            self.mark(known)

    async def close(self) -> None:
        """Stops; pending writes are dropped."""
        for alarm in self._begins.values():
            alarm.cancel()
        await self._writer.close()

    def _remember(self, parsed: ParsedJob) -> str:
        known = job_id(KIND, parsed.namespace, parsed.name)
        self._ids[parsed.namespace, workload_name(parsed)] = known
        self._known.add(known)
        return known

    def _admission(self, parsed: ParsedJob) -> KueueAdmission:
        workload = self._workloads.get((parsed.namespace, workload_name(parsed)))
        return _NO_WORKLOAD if workload is None else read_admission(workload, self._flavors)

    def _has_lost_quota(self, parsed: ParsedJob) -> bool:
        """Whether the Workload was deleted, or exists without a reservation of quota."""
        key = parsed.namespace, workload_name(parsed)
        workload = self._workloads.get(key)
        return key in self._deleted if workload is None else not reserves_quota(workload)

    async def _write(self, known: str) -> None:
        """Makes the next write to a job's Workload; the watch reports it, and so the one after it follows."""
        gang = self._gang_of(known)
        if gang is None:
            self._known.discard(known)
            self._is_early(known, None)
            return  # the Workload is deleted with its owner
        parsed = gang.requested_spec[0] if gang.requested_spec else gang.parsed
        workload = self._workloads.get((parsed.namespace, workload_name(parsed)))
        if workload is None and gang.deleted:
            return  # it is to end, and never was in the queue
        wanted = workload_object(parsed, gang.job.priority)
        wanted["metadata"]["annotations"] = {_PODS_HASH: _hash_of(wanted)}
        outdated = workload is not None and _is_outdated(workload, wanted)
        facts = _facts(gang)
        facts = facts._replace(is_early=self._is_early(known, None if facts.has_ended else parsed.job.begin))
        action = next_action(facts, workload, self._admission(parsed), is_outdated=outdated)
        try:
            await self._perform(action, wanted, workload, facts)
        except ApiError as error:
            if not (error.is_missing or error.is_conflict or error.is_exists):
                raise  # else the watch reports the object as it is by now

    def _is_early(self, known: str, begin: int | None) -> bool:
        """Whether the begin time of a job is to come; the job is looked at again then, and not at earlier ones."""
        if (alarm := self._begins.pop(known, None)) is not None:
            alarm.cancel()
        wait = 0 if begin is None else begin - self._now()
        if wait > 0:
            self._begins[known] = asyncio.get_running_loop().call_later(wait / 1000, self.mark, known)
        return wait > 0

    async def _perform(
        self, action: WorkloadAction, wanted: Manifest, workload: Manifest | None, job: JobFacts
    ) -> None:
        namespace, name = wanted["metadata"]["namespace"], wanted["metadata"]["name"]
        if action is WorkloadAction.CREATE:
            await self._connection.create(WORKLOADS, wanted)
        elif action is WorkloadAction.DELETE:
            await self._connection.delete(WORKLOADS, namespace, name)
        elif workload is not None and action is not WorkloadAction.NONE:
            at = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
            version = {"resourceVersion": workload["metadata"]["resourceVersion"]}
            body = {"metadata": version, "status": status_after(action, workload, job, at)}
            await self._connection.patch(WORKLOADS, namespace, name, body, subresource="status")


def _key(workload: Manifest) -> tuple[str, str]:
    return str(workload["metadata"]["namespace"]), str(workload["metadata"]["name"])


def _facts(gang: Gang) -> JobFacts:
    """The facts of a gang as they are committed."""
    parsed = gang.requested_spec[0] if gang.requested_spec else gang.parsed
    phase = gang.status.phase
    holds = gang.run is not None or gang.decided_state.status.placement is not None
    return JobFacts(
        has_ended=phase in TERMINAL,
        has_succeeded=phase is Phase.SUCCEEDED,
        is_suspended=parsed.job.suspend,
        is_refused=bool(gang.fit.waiting_reason) and not gang.fit.is_early,
        holds_nodes=holds,
        is_running=phase is Phase.RUNNING,
    )


def _hash_of(workload: Manifest) -> str:
    return hashlib.sha256(orjson.dumps(workload["spec"], option=orjson.OPT_SORT_KEYS)).hexdigest()[:16]


def _is_outdated(workload: Manifest, wanted: Manifest) -> bool:
    annotations = workload["metadata"].get("annotations") or {}
    return bool(annotations.get(_PODS_HASH) != wanted["metadata"]["annotations"][_PODS_HASH])


KINDS = (WORKLOADS, FLAVORS)
"""Kinds of Kueue that are watched where a cluster serves them."""
