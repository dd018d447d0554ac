"""Values given to options that are no field of a job: read by the same rules, refused in the same words."""

from __future__ import annotations

from windlass.cli.failures import UsageError
from windlass.jobs.durations import parse_duration


def duration(option: str, text: str) -> int:
    """A duration in ms. Raises UsageError."""
    try:
        return parse_duration(text)
    except ValueError as error:
        raise UsageError(f"{option} {error}") from None
