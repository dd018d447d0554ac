"""The check of a scheduling cycle that kept a gang from starting. `core.model.reasons` has the reason for users."""

from __future__ import annotations

from enum import Enum, auto


class Obstacle(Enum):
    """Obstacle that kept a gang from starting, in the order of the checks."""

    GATE = auto()
    NEVER = auto()
    """No other gang's end can help: too few nodes pass its masks, or its queue's maximum quota is too small."""
    LIMIT = auto()
    """Its user or its queue has reached a limit; this does not hold back gangs of other users or queues."""
    LEAVING = auto()
    """It starts when gangs that are already being stopped have ended."""
    QUOTA = auto()
    CAPACITY = auto()
    RESERVED = auto()
    """It would fit, but would delay a gang ahead of it that has a reservation for these nodes."""


WITHOUT_QUOTA_CLAIM = frozenset({Obstacle.GATE, Obstacle.NEVER, Obstacle.LIMIT})
"""Obstacles under which a gang has no claim on quota."""
LACKS_NODES = (Obstacle.CAPACITY, Obstacle.RESERVED)
"""Obstacles that only more free nodes can remove."""
