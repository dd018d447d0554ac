"""Turns the outcome of a diagnosis into the verdict that the controller keeps."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from windlass.core.model.diagnosed_cause import MAX_EQUAL_FAILURES, DiagnosedCause, clip_text, node_to_avoid
from windlass.diagnose.diagnosis import Advice, CauseScope, Certainty, Diagnosis, RootCause
from windlass.diagnose.failures.evidence import Evidence, LogSource
from windlass.jobs.secret_masks import mask_secrets
from windlass.server.diagnosis.evidence_request import EvidenceRequest, read_evidence
from windlass.server.diagnosis.repeated_failure import RepeatedFailure

NO_CAUSE = "no line of the evidence points to a known cause"
_REPEATED = frozenset({"repeated-failure", "repeated-kill-at-step"})
"""Rules of a failure at the same step in each start."""


def verdict_of(request: EvidenceRequest, diagnose: Callable[[Evidence], Diagnosis]) -> DiagnosedCause:
    """Diagnoses the evidence of one attempt."""
    # 1. The cause by the record and the output of the job, and by Events where the attempt has not started.
    evidence, gaps, repeated, _ = read_evidence(request)
    found = _of_output(evidence, gaps, diagnose)
    if events := {text.name for text in request.texts if text.from_events}:
        found = _weigh_events(found, [log for log in evidence.logs if log.name not in events], evidence, diagnose)
    told = _with_repeats(_as_told(found, request, _unseen_text(found.unseen)), repeated)
    # 2. For a bad node: whether evidence that no program can write leads to it as well.
    node = node_to_avoid(told)
    return replace(told, is_confirmed=True) if node and _is_confirmed(node, evidence, diagnose) else told


def diagnosis_of(request: EvidenceRequest, diagnose: Callable[[Evidence], Diagnosis]) -> Diagnosis:
    """Diagnoses the evidence of one attempt, and returns the lines that prove the cause as well."""
    evidence, gaps, *_ = read_evidence(request)
    return _of_output(evidence, gaps, diagnose)


def _of_output(evidence: Evidence, gaps: Sequence[str], diagnose: Callable[[Evidence], Diagnosis]) -> Diagnosis:
    untrusted = [log for log in evidence.logs if not log.is_trusted]
    found = diagnose(replace(evidence, logs=untrusted, has_failed=True))
    return Diagnosis(found.verdict, [*gaps, *found.unseen])


def _as_told(found: Diagnosis, request: EvidenceRequest, unseen: str) -> DiagnosedCause:
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
        node=_own_node(cause, request),
        rank=cause.rank,
        fix=_shown(cause.fix),
        unseen=unseen,
    )


def _with_repeats(told: DiagnosedCause, repeated: RepeatedFailure | None) -> DiagnosedCause:
    """Adds the number of starts that ended like this one, if all of them ended after the same known step."""
    if repeated is None or repeated.step is None:
        return told
    what = f"rank {repeated.rank} failed after step {repeated.step} in {repeated.starts} starts in a row"
    is_told = told.rule in _REPEATED or repeated.starts < MAX_EQUAL_FAILURES
    text = told.text if is_told else clip_text(f"{told.text.rstrip('.')}; {what}.")
    return replace(told, text=text, equal_failures=repeated.starts)


def _weigh_events(
    found: Diagnosis, own: Sequence[LogSource], evidence: Evidence, diagnose: Callable[[Evidence], Diagnosis]
) -> Diagnosis:
    """Returns the verdict without Events if it names the same rule; else the cause is possible at most.

    Any user with the right to write Events can write them. A possible cause ends no job and avoids no node.
    """
    without, cause = _of_output(replace(evidence, logs=own), found.unseen, diagnose).verdict, found.verdict
    if cause is None:
        return found
    same = without if without is not None and without.rule == cause.rule else None
    return replace(found, verdict=same or replace(cause, certainty=Certainty.POSSIBLE))


def _is_confirmed(node: str, evidence: Evidence, diagnose: Callable[[Evidence], Diagnosis]) -> bool:
    """Tells whether the trusted logs of a node alone give a verdict against it."""
    trusted = [log for log in evidence.logs if log.is_trusted and log.node == node]
    cause = diagnose(Evidence(trusted, has_failed=True)).verdict if trusted else None
    if cause is None or cause.node != node:
        return False
    return (cause.certainty, cause.scope, cause.advice) == (Certainty.CERTAIN, CauseScope.NODE, Advice.AVOID_NODE)


def _own_node(cause: RootCause, request: EvidenceRequest) -> str:
    """Returns the node if a log of that node is evidence. A log may name any other node, for which nothing follows."""
    cited = {line.source for line in cause.evidence}
    nodes = {file.node for file in request.files if file.name in cited}
    nodes |= {text.node for text in request.texts if text.name in cited}
    return cause.node if cause.node and cause.node in nodes else ""


def failed_diagnosis(attempt: int, why: str) -> DiagnosedCause:
    """Returns the verdict of a diagnosis that could not be made; it keeps the attempt from being diagnosed again."""
    return DiagnosedCause(attempt, _shown(f"not diagnosed: {why}"))


def _unseen_text(gaps: Sequence[str]) -> str:
    if not gaps:
        return ""
    more = f", and {len(gaps) - 1} more" if len(gaps) > 1 else ""
    return _shown(gaps[0]) + more


def _shown(text: str) -> str:
    """Returns a text without secrets, on one line of bounded length."""
    return clip_text(mask_secrets(text))
