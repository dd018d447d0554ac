"""The conditions of a job's status, and which of them exclude each other.

Source: kubeflow/training-operator v1.9, pkg/util/status.go. The backend sets times: a condition without
`lastUpdateTime` is new.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, TypeAlias

Condition: TypeAlias = dict[str, Any]
Conditions: TypeAlias = tuple[Condition, ...]

CREATED, RUNNING, RESTARTING, SUSPENDED = "Created", "Running", "Restarting", "Suspended"
QUEUED, ADMITTED = "Queued", "Admitted"
"""Conditions without a counterpart in the training operator."""
ACCEPTED = "Accepted"
"""Whether Windlass has read the object without a fault."""
SUCCEEDED, FAILED = "Succeeded", "Failed"
COMPLETE = "Complete"
"""The success of a TrainJob."""
ENDS = (SUCCEEDED, FAILED)
_STATES = frozenset({CREATED, QUEUED, ADMITTED, RUNNING, RESTARTING, SUSPENDED, COMPLETE, *ENDS})
_EXCLUDED = {RUNNING: RESTARTING, RESTARTING: RUNNING}


def conditions_of(manifest: dict[str, Any]) -> Conditions:
    """The conditions of a manifest; malformed ones are left out."""
    status = manifest.get("status")
    found = status.get("conditions") if isinstance(status, dict) else None
    listed = found if isinstance(found, list) else []
    return tuple(each for each in listed if isinstance(each, dict) and isinstance(each.get("type"), str))


def is_true(conditions: Sequence[Condition], kind: str) -> bool:
    """Tells whether the condition of this type is true."""
    return any(each["type"] == kind and each.get("status") == "True" for each in conditions)


def end_of(conditions: Sequence[Condition]) -> str:
    """Succeeded or Failed; empty while the job has not ended."""
    return next((end for end in ENDS if is_true(conditions, end)), "")


def with_current_last(conditions: Iterable[Condition]) -> list[Condition]:
    """The conditions in the order in which the last one is the present state of the job.

    The column STATE of Kubeflow's kinds shows the last condition. `Created` stays before the other states.
    """
    return sorted(conditions, key=_place)


def shows_state(conditions: Conditions) -> bool:
    """Tells whether conditions are in that order. mpi-operator adds `Running` to an ended job that it never saw run."""
    return with_current_last(conditions) == list(conditions)


def _place(condition: Condition) -> tuple[bool, bool, bool]:
    kind = condition["type"]
    return kind in _STATES, kind != CREATED, condition.get("status") == "True"


def with_condition(conditions: Conditions, kind: str, reason: str, message: str, *, status: bool = True) -> Conditions:
    """The conditions after a change of one. An ended job keeps its conditions."""
    value = "True" if status else "False"
    before = next((each for each in conditions if each["type"] == kind), None)
    same_status = before is not None and before.get("status") == value
    if end_of(conditions) or (before is not None and same_status and before.get("reason") == reason):
        return conditions
    now = {"type": kind, "status": value, "reason": reason, "message": message}
    if before is not None and same_status and "lastTransitionTime" in before:
        now["lastTransitionTime"] = before["lastTransitionTime"]
    kept = (each for each in conditions if each["type"] not in (kind, _EXCLUDED.get(kind) if status else None))
    return (*(_after(each, kind) for each in kept), now)


def _after(condition: Condition, kind: str) -> Condition:
    """The condition after another of type `kind` has become true: an ended job does not run."""
    runs = condition["type"] == RUNNING and condition.get("status") == "True"
    return {**condition, "status": "False"} if kind in ENDS and runs else condition
