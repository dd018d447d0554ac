"""How many pods of a role do what."""

from __future__ import annotations

from typing import NamedTuple


class Counts(NamedTuple):
    """Pods of one role: `active` ones run."""

    active: int = 0
    succeeded: int = 0
    failed: int = 0
