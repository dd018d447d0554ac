"""Turns the outcome of a diagnosis into the verdict that the controller keeps."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from windlass.core.model.diagnosed_cause import DiagnosedCause, clip_text
from windlass.diagnose.diagnosis import Diagnosis
from windlass.diagnose.failures.evidence import Evidence
from windlass.jobs.secret_values import hide_in_command
from windlass.server.diagnosis.evidence_request import EvidenceRequest, read_evidence

NO_CAUSE = "no line of the evidence points to a known cause"


def verdict_of(request: EvidenceRequest, diagnose: Callable[[Evidence], Diagnosis]) -> DiagnosedCause:
    """Diagnoses the evidence of one attempt."""
    evidence, gaps = read_evidence(request)
    found = diagnose(evidence)
    unseen = _unseen_text([*gaps, *found.unseen])
    cause = found.verdict
    if cause is None:
        return DiagnosedCause(request.attempt, NO_CAUSE, unseen=unseen)
    return DiagnosedCause(
        generation=request.attempt,
        text=_shown(cause.text),
        rule=cause.rule,
        certainty=cause.certainty.value,
        scope=cause.scope.value,
        advice=cause.advice.value,
        node=_own_node(cause.node or "", request),
        rank=cause.rank,
        fix=_shown(cause.fix),
        unseen=unseen,
    )


def _own_node(node: str, request: EvidenceRequest) -> str:
    """Returns the node if it is one of the attempt. A log may name any other node, for which nothing may follow."""
    nodes = {*(file.node for file in request.files), *(text.node for text in request.texts)}
    return node if node in nodes else ""


def failed_diagnosis(attempt: int, why: str) -> DiagnosedCause:
    """Returns the verdict of a diagnosis that could not be made; it keeps the attempt from being diagnosed again."""
    return DiagnosedCause(attempt, clip_text(f"not diagnosed: {why}"))


def _unseen_text(gaps: Sequence[str]) -> str:
    if not gaps:
        return ""
    more = f", and {len(gaps) - 1} more" if len(gaps) > 1 else ""
    return _shown(gaps[0]) + more


def _shown(text: str) -> str:
    """Returns a text without secrets, on one line of bounded length."""
    return clip_text(" ".join(hide_in_command([text])))
