"""The condition with the verdict of the automatic diagnosis: of a failed attempt, or of what a job waits for."""

from __future__ import annotations

import re
from typing import NamedTuple

from windlass.core.model.diagnosed_cause import MAX_TEXT, DiagnosedCause, clip_text
from windlass.core.model.status import TERMINAL, Status
from windlass.jobs.kubernetes.status.conditions import Conditions

DIAGNOSED = "Diagnosed"
"""True: the cause is known; False: the diagnosis of a failure has found none. Absent before the first diagnosis."""
_UNKNOWN = "NoKnownCause"
_WAIT_MESSAGE = re.compile(
    r"(?:attempt (?P<attempt>[0-9]{1,9}) )?waits: (?P<text>.*?)"
    r"(?: \((?P<certainty>certain|likely|possible)\))?(?:; not seen: (?P<unseen>.*))?"
)
"""Form of `wait_message`."""


class ShownDiagnosis(NamedTuple):
    """The verdict that a job shows. `word` tells it from others of the same job."""

    cause: DiagnosedCause
    word: str
    message: str


def shown_diagnosis(status: Status, wait_verdict: DiagnosedCause | None = None) -> ShownDiagnosis | None:
    """Returns the verdict on what the job waits for, else that on the newest diagnosed attempt; None without one."""
    if wait_verdict is not None and status.phase not in TERMINAL:
        return ShownDiagnosis(wait_verdict, f"wait: {_reason(wait_verdict.rule)}", wait_message(wait_verdict))
    cause = status.diagnosis
    return None if cause is None else ShownDiagnosis(cause, str(cause.generation), diagnosis_message(cause))


def diagnosis_condition(status: Status, wait_verdict: DiagnosedCause | None = None) -> dict[str, str] | None:
    """Returns the condition; None without a verdict."""
    shown = shown_diagnosis(status, wait_verdict)
    if shown is None:
        return None
    return {
        "type": DIAGNOSED,
        "status": "True" if shown.cause.rule else "False",
        "reason": _reason(shown.cause.rule),
        "message": shown.message,
    }


def diagnosis_message(cause: DiagnosedCause) -> str:
    """Returns attempt, verdict, certainty and gaps of the evidence in one line of at most 1 KiB."""
    return _message(f"attempt {cause.generation}", cause)


def wait_message(cause: DiagnosedCause) -> str:
    """Returns the same for a job that waits: before its next attempt, or for the start of one."""
    return _message(f"attempt {cause.generation} waits" if cause.generation else "waits", cause)


def read_wait_verdict(conditions: Conditions) -> DiagnosedCause | None:
    """Returns the verdict on a wait that a job shows, as an earlier leader has written it; None if it shows none.

    Its `rule` is that of the reason. What the condition does not show, such as the fix, is missing.
    """
    shown = next((each for each in conditions if each["type"] == DIAGNOSED), {})
    message, reason = str(shown.get("message")), str(shown.get("reason"))
    rule = re.sub(r"\B(?=[A-Z])", "-", reason).lower()
    found = _WAIT_MESSAGE.fullmatch(message) if len(message) <= MAX_TEXT else None
    if found is None or shown.get("status") != "True" or _reason(rule) != reason:
        return None
    text, certainty, unseen = found["text"], found["certainty"] or "", found["unseen"] or ""
    return DiagnosedCause(int(found["attempt"] or 0), text, rule, certainty, unseen=unseen)


def _message(about: str, cause: DiagnosedCause) -> str:
    strength = f" ({cause.certainty})" if cause.certainty else ""
    gaps = f"; not seen: {cause.unseen}" if cause.unseen else ""
    return clip_text(f"{about}: {cause.text}{strength}{gaps}")


def _reason(rule: str) -> str:
    """Returns a rule's id as a reason: "package-missing" is "PackageMissing"."""
    words = "".join(each if each.isascii() and each.isalnum() else " " for each in rule).split()
    name = "".join(word[0].upper() + word[1:] for word in words)
    return name if name[:1].isalpha() else _UNKNOWN
