"""When conditions of a status came to be so: stamped as the training operator and the API's own controllers do.

Source: kubeflow/training-operator v1.9, pkg/util/status.go, setCondition; apimachinery's meta.SetStatusCondition.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

_TIMES = ("lastTransitionTime", "lastUpdateTime")


def merged_conditions(
    before: Sequence[Mapping[str, Any]],
    told: Iterable[Mapping[str, Any]],
    now: str,
    *,
    updates: bool = False,
    only: Collection[str] = (),
) -> list[dict[str, Any]]:
    """The conditions before, with those that are told now in their places, each with its times.

    The time of the last transition stays while the status does, and all of a condition while nothing of it changes but
    what is named in `only`. `updates`: there is a lastUpdateTime as well. `now`: RFC 3339.
    """
    result = {each["type"]: dict(each) for each in before if isinstance(each.get("type"), str)}
    for condition in told:
        old = result.get(condition["type"])
        if old is None or any(old.get(name) != condition[name] for name in condition.keys() - {*only, *_TIMES}):
            result[condition["type"]] = _stamped(old, condition, now, updates=updates)
    return list(result.values())


def _stamped(old: Mapping[str, Any] | None, condition: Mapping[str, Any], now: str, *, updates: bool) -> dict[str, Any]:
    same = old is not None and old.get("status") == condition["status"] and "lastTransitionTime" in old
    since = old["lastTransitionTime"] if old is not None and same else now
    return {**condition, **({"lastUpdateTime": now} if updates else {}), "lastTransitionTime": since}
