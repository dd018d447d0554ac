"""Diagnosis of failed attempts on a cluster: from the record of the job, its pods' ends, and their recorded logs.

The logs are those that the history has: they were read when the attempt failed, because a pod's log ends with the pod.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any

from windlass.backends.kubernetes.client.objects import Node
from windlass.backends.kubernetes.client.pod_log import LogStart
from windlass.backends.kubernetes.gangs.gang import LastWait
from windlass.core.lifecycle.failure import START_TIMEOUT
from windlass.core.model.diagnosed_cause import DiagnosedCause
from windlass.core.model.status import TERMINAL, JobState
from windlass.server.diagnosis.diagnosis_process import ProcessLimits, diagnose_in_process
from windlass.server.diagnosis.evidence_request import EvidenceRequest, LoggedText
from windlass.server.diagnosis.failed_starts import FailedStart, failed_starts
from windlass.server.diagnosis.job_record import record_texts
from windlass.server.operator.cluster_job_records import ClusterJobRecords
from windlass.server.operator.history.databases import HistoryError
from windlass.server.operator.history.entries import StoredLog
from windlass.server.operator.history.recorder import HistoryRecorder, is_whole_log
from windlass.server.service import Service

_LIMITS = ProcessLimits(memory=384 << 20)
"""A container has 512 MiB by default, in which the operator itself must live."""
_START_CHARACTERS = 64 << 10
"""Characters at the end of the log of each failed start that are searched for its last step."""
_LATE_MS = 600_000
"""Time after the end of a job for which a new leader still diagnoses it."""


@dataclass(frozen=True, slots=True)
class AttemptDiagnosis:
    """Gathers the evidence of an attempt and diagnoses it in a process of its own."""

    service: Service
    records: ClusterJobRecords
    recorder: HistoryRecorder
    nodes: Mapping[str, Node]
    """The last seen nodes by name."""
    last_wait: Callable[[str], LastWait] = lambda _job_id: LastWait()
    """Returns the attempt of a job that waited last for its start, and the obstacle as lines of evidence."""

    async def diagnose(self, state: JobState) -> DiagnosedCause:
        """Returns the verdict on the newest failed attempt of a job. Raises DiagnosisError, ApiError, BackendError."""
        await self.recorder.wait_for_logs(state.id)
        details = await self.service.job(state.id)
        try:
            logs: Sequence[StoredLog] | None = await self.records.logs(state.id)
        except HistoryError:
            logs = None
        attempt = state.status.failed_generation
        starts = self.recorder.take_log_starts(state.id, attempt)
        request = cluster_evidence(details, logs, attempt, starts)
        request = replace(request, texts=[*request.texts, *obstacle_text(state, self.last_wait(state.id))])
        names = {text.node for text in request.texts if text.node}
        seen = condition_texts(self.nodes[name] for name in sorted(names) if name in self.nodes)
        return await diagnose_in_process(replace(request, texts=[*request.texts, *seen]), _LIMITS)


def obstacle_text(state: JobState, wait: LastWait) -> Iterator[LoggedText]:
    """Yields what an attempt waited for that has not started in time: its pods are gone."""
    failure = state.status.last_failure
    has_not_started = failure is not None and failure.reason == START_TIMEOUT.reason
    if has_not_started and wait.text and wait.attempt == state.status.failed_generation:
        yield LoggedText(f"wait of {state.id}", f"{wait.text}\n", from_events=wait.from_events)


async def diagnose_wait(request: EvidenceRequest) -> DiagnosedCause:
    """Returns the verdict on what a job waits for. Raises DiagnosisError."""
    return await diagnose_in_process(request, _LIMITS)


def cluster_evidence(
    details: Mapping[str, Any],
    logs: Sequence[StoredLog] | None,
    attempt: int,
    starts: Mapping[int, LogStart] = MappingProxyType({}),
) -> EvidenceRequest:
    """Returns the evidence of an attempt.

    `logs` None: the database of history did not answer. `starts`: the starts of logs by rank, as far as they were read.
    """
    own = [log for log in logs or () if log.generation == attempt]
    is_rank_per_pod = all(role["procs"] == 1 for role in details["spec"]["roles"])
    texts = [_log_text(log, starts.get(log.rank), len(own), with_rank=is_rank_per_pod) for log in own]
    unseen = [f"pod {log.pod}: {log.missing}" for log in own if log.missing]
    cut = [log for log, text in zip(own, texts, strict=True) if text.text and not text.is_complete]
    unseen += [f"pod {log.pod}: the lines {_gap(starts.get(log.rank))}" for log in cut]
    if logs is None:
        unseen.append("no logs: the database of history does not answer")
    elif not own:
        unseen.append("no log of this attempt was recorded: the verdict rests on the ends of its pods")
    pods = sum(task["generation"] == attempt for task in details["tasks"])
    return EvidenceRequest(
        attempt=attempt,
        texts=[*texts, *record_texts(details, attempt)],
        expected_ranks=pods if pods and is_rank_per_pod else None,
        unseen=unseen,
        starts=[_with_log(each, logs or ()) for each in failed_starts(details, attempt)],
    )


def _with_log(start: FailedStart, logs: Sequence[StoredLog]) -> FailedStart:
    own = (log for log in logs if (log.generation, log.rank) == (start.attempt, start.rank))
    return replace(start, text="".join(log.text[-_START_CHARACTERS:] for log in own))


def _log_text(log: StoredLog, start: LogStart | None, logs: int, *, with_rank: bool) -> LoggedText:
    text = log.text if start is None else start.joined(log.text)
    is_complete = not log.missing and (is_whole_log(log.text, logs) or (start is not None and start.is_all))
    return LoggedText(f"pod {log.pod}", text, log.rank if with_rank else None, log.node, is_complete)


def _gap(start: LogStart | None) -> str:
    return "before its last ones" if start is None else "between its first and its last ones"


def condition_texts(nodes: Iterable[Node]) -> Iterator[LoggedText]:
    """Yields the problems that the conditions of nodes name: what the kubelet and detectors of problems write there."""
    for node in nodes:
        found = [each for each in node.status.conditions if each.type != "Ready" and each.status == "True"]
        lines = [f"{each.type}: {each.reason}\n{each.message}\n" for each in found]
        if lines:
            name = node.metadata.name
            yield LoggedText(f"conditions of node {name}", "".join(lines), node=name, is_trusted=True)


def is_recent(state: JobState, now: int) -> bool:
    """Tells whether a new leader diagnoses a job: it lives, or has ended a short time ago."""
    return state.status.phase not in TERMINAL or now - (state.status.finished_at or 0) < _LATE_MS
