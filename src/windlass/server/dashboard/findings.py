"""Findings on a job whose last attempt failed: the root cause with the lines that prove it, diagnosed on request."""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Awaitable, Callable
from typing import Any

import msgspec

from windlass.backends.local.paths import StatePaths
from windlass.diagnose.diagnosis import Diagnosis
from windlass.server.diagnosis.diagnosis_process import DiagnosisError, ProcessLimits, find_evidence_in_process
from windlass.server.diagnosis.evidence_request import EvidenceRequest
from windlass.server.diagnosis.local_evidence import local_evidence

Json = dict[str, Any]
_MAX_KEPT = 64
"""Diagnoses that are kept: the output of an attempt that has failed does not change any more."""
_MAX_LINES, _MAX_OTHERS = 12, 5


class JobFindings:
    """Diagnoses failed attempts one at a time, and keeps the last ones."""

    def __init__(
        self,
        paths: StatePaths,
        diagnose: Callable[[EvidenceRequest, ProcessLimits], Awaitable[Diagnosis]] = find_evidence_in_process,
    ) -> None:
        self._paths, self._diagnose = paths, diagnose
        self._turn = asyncio.Lock()
        self._kept: OrderedDict[tuple[str, int], Json] = OrderedDict()

    async def of(self, details: Json) -> Json:
        """Findings on the newest failed attempt; without a `verdict` if none failed or no line points to a cause.

        `details`: all details of the job.
        """
        attempt = 0 if "members" in details else details["status"]["failed_generation"]
        if not attempt:
            return {"attempt": 0, "verdict": None, "unseen": []}
        key = (details["id"], attempt)
        async with self._turn:
            if key not in self._kept:
                self._kept[key] = await self._find(details, attempt)
            self._kept.move_to_end(key)
            while len(self._kept) > _MAX_KEPT:
                self._kept.popitem(last=False)
            return self._kept[key]

    async def _find(self, details: Json, attempt: int) -> Json:
        request = await asyncio.to_thread(local_evidence, self._paths, details, attempt)
        try:
            found = await self._diagnose(request, ProcessLimits())
        except DiagnosisError as error:
            return {"attempt": attempt, "verdict": None, "unseen": [f"not diagnosed: {error}"]}
        cause = found.verdict
        if cause is None:
            return {"attempt": attempt, "verdict": None, "unseen": list(found.unseen)[:_MAX_OTHERS]}
        shown = msgspec.to_builtins(cause)
        shown["evidence"] = shown["evidence"][:_MAX_LINES]
        shown["alternatives"] = shown["alternatives"][:_MAX_OTHERS]
        return {"attempt": attempt, "verdict": shown, "unseen": list(found.unseen)[:_MAX_OTHERS]}
