"""A queue: where jobs wait, and what its jobs may hold together."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Queue:
    """`nominal` is a hard limit by resource over all admitted jobs of the queue; absent means no limit."""

    name: str
    nominal: Mapping[str, int] = field(default_factory=dict)
