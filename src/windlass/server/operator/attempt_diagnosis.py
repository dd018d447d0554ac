"""Diagnosis of failed attempts on a cluster: from the record of the job, its pods' ends, and their recorded logs.

The logs are those that the history has: they were read when the attempt failed, because a pod's log ends with the pod.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from windlass.backends.kubernetes.client.objects import Node
from windlass.core.model.diagnosed_cause import DiagnosedCause
from windlass.core.model.status import TERMINAL, JobState
from windlass.server.diagnosis.diagnosis_process import ProcessLimits, diagnose_in_process
from windlass.server.diagnosis.evidence_request import EvidenceRequest, LoggedText
from windlass.server.diagnosis.job_record import record_texts
from windlass.server.operator.cluster_job_records import ClusterJobRecords
from windlass.server.operator.history.databases import HistoryError
from windlass.server.operator.history.entries import StoredLog
from windlass.server.operator.history.recorder import HistoryRecorder, is_whole_log
from windlass.server.service import Service

_LIMITS = ProcessLimits(memory=384 << 20)
"""A container has 512 MiB by default, in which the operator itself must live."""
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

    async def diagnose(self, state: JobState) -> DiagnosedCause:
        """Returns the verdict on the newest failed attempt of a job. Raises DiagnosisError, ApiError, BackendError."""
        await self.recorder.wait_for_logs(state.id)
        details = await self.service.job(state.id)
        try:
            logs: Sequence[StoredLog] | None = await self.records.logs(state.id)
        except HistoryError:
            logs = None
        request = cluster_evidence(details, logs, state.status.failed_generation)
        names = {text.node for text in request.texts if text.node}
        seen = condition_texts(self.nodes[name] for name in sorted(names) if name in self.nodes)
        return await diagnose_in_process(replace(request, texts=[*request.texts, *seen]), _LIMITS)


def cluster_evidence(details: Mapping[str, Any], logs: Sequence[StoredLog] | None, attempt: int) -> EvidenceRequest:
    """Returns the evidence of an attempt. `logs` None: the database of history did not answer."""
    own = [log for log in logs or () if log.generation == attempt]
    is_rank_per_pod = all(role["procs"] == 1 for role in details["spec"]["roles"])
    texts = [_log_text(log, len(own), with_rank=is_rank_per_pod) for log in own]
    unseen = [f"pod {log.pod}: {log.missing}" for log in own if log.missing]
    unseen += [f"{text.name}: the lines before its last ones" for text in texts if text.text and not text.is_complete]
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
    )


def _log_text(log: StoredLog, logs: int, *, with_rank: bool) -> LoggedText:
    is_complete = not log.missing and is_whole_log(log.text, logs)
    return LoggedText(f"pod {log.pod}", log.text, log.rank if with_rank else None, log.node, is_complete)


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
