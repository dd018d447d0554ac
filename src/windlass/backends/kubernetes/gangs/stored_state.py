"""What the controller must remember of a job, as it stands in the job's own object.

The state is one text: whatever merges objects cannot mix two states, and no number is too long. What people want to
know of it stands beside it in words. The job itself is in the object's spec.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any

import msgspec

from windlass.core.model.status import Status

FIELD = "windlass"
"""Below `status`."""
STATE = "state"
"""Beside it: what `windlass queue` calls the job's state, for people who list objects."""
TRAINING = "training"
"""Below `status`: the progress that agents report."""
ANNOTATION = "windlass.dev/state"
"""The same as one text, on objects whose status belongs to others."""

_FRESH = Status()
_NAMES = tuple(each.name for each in fields(Status))
_decode_state = msgspec.json.Decoder(Status).decode


@dataclass(frozen=True, slots=True)
class Stored:
    """A job's state as it was committed last. `revision` counts commits: whoever knows another one is behind."""

    number: int
    revision: int
    status: Status
    remade: int = 0
    """Pods made anew within a run; told besides, and not by the controller."""


class _Written(msgspec.Struct, frozen=True):
    number: int
    revision: int
    phase: str
    generation: int
    state: str
    remade: int = 0


def written(stored: Stored) -> dict[str, Any]:
    """For `status.windlass`. Fields that are as in the beginning are left out of the text."""
    status = stored.status
    changed = {name: value for name in _NAMES if (value := getattr(status, name)) != getattr(_FRESH, name)}
    state = msgspec.json.encode(changed).decode()
    told = _Written(stored.number, stored.revision, status.phase.value, status.generation, state, stored.remade)
    return msgspec.to_builtins(told)  # type: ignore[no-any-return]


class UnreadableError(ValueError):
    """Something is there, and not as it was written: starting the job afresh could make two of it."""


def read(found: Any) -> Stored | None:
    """From what was `written`; None if nothing is there. Later versions' fields are passed over.

    Raises UnreadableError.
    """
    if found is None:
        return None
    try:
        told = msgspec.convert(found, _Written)
        return Stored(told.number, told.revision, _decode_state(told.state), told.remade)
    except msgspec.DecodeError as error:  # a ValidationError is one
        raise UnreadableError(str(error)) from None


def revision_of(manifest: Mapping[str, Any]) -> int:
    """Which commit an object's state is; 0 where there is none that can be read."""
    found = (manifest.get("status") or {}).get(FIELD)
    revision = found.get("revision") if isinstance(found, Mapping) else None
    return revision if isinstance(revision, int) else 0
