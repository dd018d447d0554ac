"""Format of a job's state in the job's own object, below `status.windlass`.

`state` is one text, so that a merge of two objects cannot mix two states and no number is too long for a client. The
placements, which grow with the gang, are a text of their own: it is written only when they change, and both texts name
the revision that wrote it. Phase and generation are repeated beside them for users. The job itself is in the object's
spec.
"""

from __future__ import annotations

from dataclasses import dataclass, field, fields, replace
from typing import Any

import msgspec

from windlass.backends.status_fields import BIT_SETS, PLACEMENTS, from_fields, to_fields
from windlass.core.model.status import Placement, Status
from windlass.jobs.kubernetes.bounded_integers import (
    MAX_AMOUNT_MS,
    MAX_COUNT,
    MAX_GANG_SIZE,
    MAX_JOB_NUMBER,
    MAX_TIME_MS,
    require_integer,
)

FIELD = "windlass"
"""Below `status`."""
STATE = "state"
"""Below `status`: the job's state as `windlass queue` shows it, for users who list objects."""
TRAINING = "training"
"""Below `status`: the training progress that agents report."""
PRIORITY = "startedPriority"
"""Below `status`: the priority with which a gang that holds nodes was started."""
MAX_PRIORITY_VALUE = 2**31 - 1
"""Largest value of a PriorityClass."""
ANNOTATION = "windlass.dev/state"
"""Name of the annotation with the state, on objects whose status belongs to other controllers."""


@dataclass(frozen=True, slots=True)
class Stored:
    """State of a job as it was last committed.

    `revision` counts commits; 0: the state follows from the status of another operator, and is in no object yet.
    """

    number: int
    revision: int
    status: Status
    placed: int | None = field(default=None, compare=False)
    """Revision that wrote the placements; None: this one."""

    def followed_by(self, status: Status) -> Stored:
        """Returns the next state to commit."""
        is_written = self.revision > 0 or self.status.placement is None
        same = is_written and all(getattr(self.status, each) == getattr(status, each) for each in PLACEMENTS)
        placed = self.revision if self.placed is None else self.placed
        return Stored(self.number, self.revision + 1, status, placed if same else None)


_TIMES = ("_at", "_since", "_until")
_MAXIMA = {"not_before": MAX_TIME_MS, "run_time": MAX_TIME_MS, "service": MAX_AMOUNT_MS}
_NUMBERS = tuple(each.name for each in fields(Status) if each.name not in BIT_SETS)


class _Written(msgspec.Struct, frozen=True):
    number: int
    revision: int
    phase: str
    generation: int
    state: str
    placements: str | None = None


class _Placements(msgspec.Struct, frozen=True, omit_defaults=True):
    revision: int
    placement: Placement | None = None
    resize_to: Placement | None = None


_decode_placements = msgspec.json.Decoder(_Placements).decode


def to_patch(stored: Stored) -> dict[str, Any]:
    """Returns a merge patch of `status.windlass`. It contains the placements only if this revision changes them."""
    status, placed = stored.status, stored.revision if stored.placed is None else stored.placed
    is_placed = status.placement is not None or status.resize_to is not None
    changed = to_fields(status, without=PLACEMENTS)
    state = msgspec.json.encode({**changed, "placed": placed if is_placed else 0}).decode()
    written = _Written(stored.number, stored.revision, status.phase.value, status.generation, state)
    patch: dict[str, Any] = msgspec.to_builtins(written)
    del patch["placements"]
    if placed == stored.revision:
        text = msgspec.json.encode(_Placements(placed, status.placement, status.resize_to)).decode()
        patch["placements"] = text if is_placed else None  # null removes it
    return patch


class UnreadableError(ValueError):
    """A state exists and cannot be read as written. A fresh start could run the job twice."""


def read(found: Any) -> Stored | None:
    """Reads the state from `status.windlass`; returns None if there is none. Fields of later versions are ignored.

    Raises UnreadableError.
    """
    if found is None:
        return None
    try:
        written = msgspec.convert(found, _Written)
        state = msgspec.json.decode(written.state, type=dict[str, Any])
        placed = msgspec.convert(state.pop("placed", 0), int)
        status = from_fields(state)
        if placed:
            status = _with_placements(status, _decode_placements(written.placements or "{}"), placed)
        _check_bounds(written, status)
        return Stored(written.number, written.revision, status, placed)
    except (msgspec.DecodeError, TypeError, ValueError, RecursionError) as error:  # a ValidationError is a DecodeError
        raise UnreadableError(str(error)) from None


def _check_bounds(written: _Written, status: Status) -> None:
    """Raises ValueError for numbers that no controller writes: times, arrays and later states could not hold them."""
    require_integer(written.number, 0, MAX_JOB_NUMBER)
    require_integer(written.revision, 0, MAX_COUNT)
    for name in _NUMBERS:
        number = getattr(status, name)
        if type(number) is int:
            require_integer(number, 0, _MAXIMA.get(name, MAX_TIME_MS if name.endswith(_TIMES) else MAX_COUNT))
    for name in BIT_SETS:
        members = getattr(status, name)
        if members < 0 or members.bit_length() > MAX_GANG_SIZE:
            raise ValueError(f"{name} names more than {MAX_GANG_SIZE} members")
    if status.last_failure is not None:
        require_integer(status.last_failure.at, 0, MAX_TIME_MS)
    if status.diagnosis is not None:
        require_integer(status.diagnosis.generation, 0, MAX_COUNT)


def _with_placements(status: Status, placements: _Placements, placed: int) -> Status:
    if placements.revision != placed:
        raise UnreadableError(f"its placements are of revision {placements.revision}, its state has {placed}")
    return replace(status, placement=placements.placement, resize_to=placements.resize_to)
