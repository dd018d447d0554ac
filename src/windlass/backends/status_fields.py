"""The status of a job as plain data, for a backend that stores it as JSON.

Fields that have their default are left out. Bit sets are hexadecimal texts: decimal texts of integers end at 4,300
digits (`sys.set_int_max_str_digits`), which is 14,284 members.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import fields
from typing import Any

import msgspec

from windlass.core.model.status import Status

_DEFAULTS = Status()
_NAMES = tuple(each.name for each in fields(Status))
BIT_SETS = ("succeeded_members", "restarting_members", "added_members")
PLACEMENTS = ("placement", "resize_to")
"""Large fields that change rarely: a backend writes them apart from the others, and only when they change."""


def to_fields(status: Status, *, without: Collection[str] = ()) -> dict[str, Any]:
    """The fields that differ from their defaults, except those in `without`; values are what msgspec can encode."""
    named = (name for name in _NAMES if name not in without)
    found = {name: value for name in named if (value := getattr(status, name)) != getattr(_DEFAULTS, name)}
    return found | {name: f"{found[name]:x}" for name in BIT_SETS if name in found}


def from_fields(found: Mapping[str, Any]) -> Status:
    """The inverse; fields of later versions are ignored. Raises msgspec.ValidationError, TypeError, ValueError."""
    bit_sets = {name: int(found[name], 16) for name in BIT_SETS if name in found}
    return msgspec.convert({**found, **bit_sets}, Status)
