"""Outcomes of reading one part of an imported file: a field of the job, or what the job lacks."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, TypeAlias

from windlass.jobs.errors import Place


@dataclass(frozen=True, slots=True)
class Setting:
    """A field of the job file with its value as it is written there."""

    field: str
    value: Any


@dataclass(frozen=True, slots=True)
class Loss:
    """A part of an imported file that the job does not have, or has otherwise."""

    place: Place
    part: str
    """An option such as "--mail-type", a field such as "resources.ports", or a command."""
    reason: str

    def __str__(self) -> str:
        where = f"line {self.place.line}" if self.place.line else "command line"
        return f"{where}: {self.part}: {self.reason}"


Outcome: TypeAlias = Setting | Loss
