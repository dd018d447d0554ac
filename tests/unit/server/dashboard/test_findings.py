"""Findings: one diagnosis for each failed attempt, and none without a failure."""

import asyncio
from pathlib import Path

from windlass.backends.local.paths import StatePaths
from windlass.diagnose.diagnosis import Advice, CauseScope, Certainty, Diagnosis, EvidenceLine, RootCause
from windlass.server.dashboard.findings import JobFindings
from windlass.server.diagnosis.diagnosis_process import DiagnosisError, ProcessLimits
from windlass.server.diagnosis.evidence_request import EvidenceRequest

LINES = tuple(EvidenceLine("rank 0 err", number, f"line {number}") for number in range(1, 40))
CAUSE = RootCause(
    "memory", "oom", "Out of memory.", Certainty.CERTAIN, CauseScope.RANK, Advice.STOP, "why", "fix", evidence=LINES
)


def details(attempt: int) -> dict[str, object]:
    spec = {"launcher": "agent", "roles": []}
    status = {"failed_generation": attempt, "last_failure": None, "generation": attempt, "message": ""}
    return {
        "id": "job-1", "ranks": 1, "tasks": [], "transitions": [], "spec": spec, "status": status, "phase": "Failed",
        "reason": "", "message": "", "name": "job", "exit_code": 1,
    }  # fmt: skip


def test_an_attempt_is_diagnosed_once_and_its_evidence_is_bounded(tmp_path: Path) -> None:
    asked = []

    async def diagnose(request: EvidenceRequest, _limits: ProcessLimits) -> Diagnosis:
        asked.append(request.attempt)
        return Diagnosis(CAUSE)

    async def ask() -> list[dict[str, object]]:
        findings = JobFindings(StatePaths(tmp_path), diagnose)
        return [await findings.of(details(attempt)) for attempt in (1, 1, 2)]

    first, again, second = asyncio.run(ask())
    assert asked == [1, 2]
    assert first is again
    assert second["attempt"] == 2
    assert first["verdict"]["text"] == "Out of memory."
    assert len(first["verdict"]["evidence"]) == 12


def test_a_job_that_never_failed_is_not_diagnosed(tmp_path: Path) -> None:
    async def diagnose(_request: EvidenceRequest, _limits: ProcessLimits) -> Diagnosis:
        raise AssertionError

    assert asyncio.run(JobFindings(StatePaths(tmp_path), diagnose).of(details(0)))["verdict"] is None


def test_a_diagnosis_that_fails_says_so(tmp_path: Path) -> None:
    async def diagnose(_request: EvidenceRequest, _limits: ProcessLimits) -> Diagnosis:
        raise DiagnosisError("it took longer than 60 s")

    found = asyncio.run(JobFindings(StatePaths(tmp_path), diagnose).of(details(1)))
    assert found == {"attempt": 1, "verdict": None, "unseen": ["not diagnosed: it took longer than 60 s"]}
