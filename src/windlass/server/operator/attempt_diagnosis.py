"""Diagnosis of failed attempts on a cluster: from the record of the job, its pods' ends, and their recorded logs.

The logs are those that the history has: they were read when the attempt failed, because a pod's log ends with the pod.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from windlass.core.model.diagnosed_cause import DiagnosedCause
from windlass.core.model.status import TERMINAL, JobState
from windlass.server.diagnosis.diagnosis_process import ProcessLimits, diagnose_in_process
from windlass.server.diagnosis.evidence_request import EvidenceRequest, LoggedText
from windlass.server.diagnosis.job_record import record_texts
from windlass.server.operator.cluster_job_records import ClusterJobRecords
from windlass.server.operator.history.databases import HistoryError
from windlass.server.operator.history.entries import StoredLog
from windlass.server.operator.history.recorder import HistoryRecorder
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

    async def diagnose(self, state: JobState) -> DiagnosedCause:
        """Returns the verdict on the newest failed attempt of a job. Raises DiagnosisError, ApiError, BackendError."""
        await self.recorder.wait_for_logs(state.id)
        details = await self.service.job(state.id)
        try:
            logs: Sequence[StoredLog] | None = await self.records.logs(state.id)
        except HistoryError:
            logs = None
        return await diagnose_in_process(cluster_evidence(details, logs, state.status.failed_generation), _LIMITS)


def cluster_evidence(details: Mapping[str, Any], logs: Sequence[StoredLog] | None, attempt: int) -> EvidenceRequest:
    """Returns the evidence of an attempt. `logs` None: the database of history did not answer."""
    own = [log for log in logs or () if log.generation == attempt]
    is_rank_per_pod = all(role["procs"] == 1 for role in details["spec"]["roles"])
    texts = [LoggedText(f"pod {log.pod}", log.text, log.rank if is_rank_per_pod else None, log.node) for log in own]
    unseen = [f"pod {log.pod}: {log.missing}" for log in own if log.missing]
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


def is_recent(state: JobState, now: int) -> bool:
    """Tells whether a new leader diagnoses a job: it lives, or has ended a short time ago."""
    return state.status.phase not in TERMINAL or now - (state.status.finished_at or 0) < _LATE_MS
