"""What is in the way of a gang that waits."""

from __future__ import annotations

from enum import Enum, auto


class Obstacle(Enum):
    """What kept a gang from starting, in the order in which it is looked for."""

    GATE = auto()
    NEVER = auto()
    """No gang's end can help: too few nodes pass its masks, or its queue's quota is too small for it."""
    LIMIT = auto()
    """Its user, or its queue, runs or holds as much as people allow: that keeps nothing from anybody else."""
    LEAVING = auto()
    """It starts once those are gone that are being stopped: they were for its sake, or will do as well."""
    QUOTA = auto()
    CAPACITY = auto()
    RESERVED = auto()
    """It would fit, and delay a gang that goes first and to which these nodes are promised."""


KEEPS_NOTHING = frozenset({Obstacle.GATE, Obstacle.NEVER, Obstacle.LIMIT})
"""What a gang waits for without any claim on quota."""
LACKS_NODES = (Obstacle.CAPACITY, Obstacle.RESERVED)
"""What only nodes can help against."""
