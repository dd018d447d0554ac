"""Times of the conditions of a status, set as the training operator and the API's own controllers set them.

Source: kubeflow/training-operator v1.9, pkg/util/status.go, setCondition; apimachinery's meta.SetStatusCondition. Not
taken over: Running, which an end makes false, keeps its old times there.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from windlass.jobs.kubernetes.bounded_integers import MAX_TIME_MS, parse_integer

Condition = Mapping[str, Any]
_MATTER = ("status", "reason", "message")


def rfc3339(ms: int) -> str:
    """Milliseconds since the epoch as the API writes times: whole seconds, in UTC. A time out of range is cut."""
    ms = max(0, min(ms, MAX_TIME_MS))
    return datetime.fromtimestamp(ms // 1000, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def milliseconds(text: Any) -> int | None:
    """Milliseconds from a time of the API; None if it is malformed, or earlier than 1970."""
    try:
        at = datetime.fromisoformat(text)
        return parse_integer(round(at.timestamp() * 1000), 0, MAX_TIME_MS) if at.tzinfo else None
    except (TypeError, ValueError, OverflowError):
        return None


def with_times(
    before: Iterable[Condition], wanted: Iterable[Condition], now: str, *, updates: bool
) -> list[dict[str, Any]]:
    """The wanted conditions with their times.

    An unchanged condition stays as it is; the time of the last transition stays while the status does.
    `updates`: conditions have a lastUpdateTime, as in the training operator's kinds. `now`: RFC 3339.
    """
    known = {each.get("type"): each for each in before}
    return [_stamped(known.get(each["type"]), each, now, updates=updates) for each in wanted]


def merge_conditions(
    before: Sequence[Condition], changed: Sequence[Condition], now: str, *, updates: bool = False
) -> list[dict[str, Any]]:
    """The earlier conditions with new ones in their places or at the end, each with its times."""
    new = {each["type"]: each for each in changed}
    kept = [new.pop(kind, each) for each in before if isinstance(kind := each.get("type"), str)]
    return with_times(before, [*kept, *new.values()], now, updates=updates)


def _stamped(old: Condition | None, wanted: Condition, now: str, *, updates: bool) -> dict[str, Any]:
    if old is not None and all(old.get(name, "") == wanted.get(name, "") for name in _MATTER):
        return dict(old)
    same = old is not None and old.get("status") == wanted["status"]
    since = (old or {}).get("lastTransitionTime") if same else None
    return {**wanted, **({"lastUpdateTime": now} if updates else {}), "lastTransitionTime": since or now}
