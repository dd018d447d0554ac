"""The difference between two descriptions of a job as one line of its history."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import fields
from typing import Any

from windlass.core.model.job import Job, Role
from windlass.core.model.moments import format_moment_utc

_IGNORED = frozenset({"roles", "labels", "hold", "agent"})
"""Fields that are compared by role, or that a backend sets and users do not."""
_OPAQUE = frozenset({"command", "env", "pod"})
"""Fields of a role that may contain secrets or are long: their values are left out."""
_MAX_TEXT = 60
_MAX_CHANGES = 12


def describe_changes(before: Job, after: Job) -> str:
    """Changed fields with both values, such as "priority 0 → 7; worker.replicas 2 → 4"; empty without a change."""
    found = [*_changes("", before, after, _IGNORED), *_role_changes(before, after)]
    more = [f"{len(found) - _MAX_CHANGES} more"] if len(found) > _MAX_CHANGES else []
    return "; ".join([*found[:_MAX_CHANGES], *more])


def _role_changes(before: Job, after: Job) -> Iterator[str]:
    old, new = ({role.name: role for role in job.roles} for job in (before, after))
    yield from (f"role {name} removed" for name in old if name not in new)
    yield from (f"role {name} added" for name in new if name not in old)
    for name in new:
        if name in old:
            yield from _changes(f"{name}.", old[name], new[name], frozenset())


def _changes(start: str, before: Job | Role, after: Job | Role, ignored: frozenset[str]) -> Iterator[str]:
    for each in fields(before):
        old, new = getattr(before, each.name), getattr(after, each.name)
        if old == new or each.name in ignored:
            continue
        show = _SHOWN.get(each.name, _text)
        values = "changed" if each.name in _OPAQUE else f"{show(old)} → {show(new)}"
        yield f"{start}{each.name} {values}"


def _text(value: Any) -> str:
    if value is None:
        return "none"
    if isinstance(value, dict):
        value = " ".join(f"{name}={amount}" for name, amount in value.items())
    elif isinstance(value, tuple):
        value = " ".join(map(str, value))
    text = str(value) or "none"
    return text if len(text) <= _MAX_TEXT else f"{text[: _MAX_TEXT - 1]}…"


def _seconds(value: int | None) -> str:
    return "none" if value is None else f"{value / 1000:g} s"


def _moment(value: int | None) -> str:
    return "none" if value is None else format_moment_utc(value)


_SHOWN: dict[str, Callable[[Any], str]] = {
    **dict.fromkeys(("walltime", "deadline", "start_timeout", "unreachable_grace", "ttl", "grace"), _seconds),
    "begin": _moment,
}
"""Field in ms → how it is shown: durations in seconds."""
