"""The condition with the verdict of the automatic diagnosis of a failed attempt."""

from __future__ import annotations

from windlass.core.model.diagnosed_cause import DiagnosedCause, clip_text
from windlass.core.model.status import Status

DIAGNOSED = "Diagnosed"
"""True: the cause of the failure is known; False: the diagnosis has found none. Absent before the first diagnosis."""
_UNKNOWN = "NoKnownCause"


def diagnosis_condition(status: Status) -> dict[str, str] | None:
    """Returns the condition of the newest diagnosed attempt; None without one."""
    cause = status.diagnosis
    if cause is None:
        return None
    return {
        "type": DIAGNOSED,
        "status": "True" if cause.rule else "False",
        "reason": _reason(cause.rule),
        "message": diagnosis_message(cause),
    }


def diagnosis_message(cause: DiagnosedCause) -> str:
    """Returns attempt, verdict, certainty and gaps of the evidence in one line of at most 1 KiB."""
    strength = f" ({cause.certainty})" if cause.certainty else ""
    gaps = f"; not seen: {cause.unseen}" if cause.unseen else ""
    return clip_text(f"attempt {cause.generation}: {cause.text}{strength}{gaps}")


def _reason(rule: str) -> str:
    """Returns a rule's id as a reason: "package-missing" is "PackageMissing"."""
    words = "".join(each if each.isascii() and each.isalnum() else " " for each in rule).split()
    name = "".join(word[0].upper() + word[1:] for word in words)
    return name if name[:1].isalpha() else _UNKNOWN
