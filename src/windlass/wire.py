"""What crosses the border between Windlass and the processes it starts: variable names and exit codes.

Belongs here: constants and message shapes that both sides must agree on. Standard library only: the agent
and the training library import this and nothing else of ours.
"""

from __future__ import annotations

from enum import IntEnum

JOB_ID = "WINDLASS_JOB_ID"
JOB_NAME = "WINDLASS_JOB_NAME"
GENERATION = "WINDLASS_GENERATION"
"""Which start of the gang this process belongs to, from 1. Anything shared between ranks is keyed by it."""
NODE = "WINDLASS_NODE"
ROLE = "WINDLASS_ROLE"
REPLICA = "WINDLASS_REPLICA"
STATE_ID = "WINDLASS_STATE_ID"
"""Marks every process started on behalf of one state folder, for finding strays."""
CHECKPOINTS = "WINDLASS_CHECKPOINTS"
"""Where checkpoints of this job belong, the same for all of its generations: a folder, or a bucket."""
GRACE = "WINDLASS_GRACE"
"""Seconds between being asked to leave and being killed."""
MESH = "WINDLASS_MESH"
"""Degrees of parallelism, where a script names none: `pp=2,dp=2,tp=2`, or `auto`."""
INDEX = "JOB_COMPLETION_INDEX"
"""An array member's index; the name that Kubernetes' indexed Jobs use."""


class ExitCode(IntEnum):
    """Codes by which a training process says how its end is to be taken."""

    PREEMPTED = 83
    """Saved and left because it was asked to: start it again, this was nobody's fault."""
    RETRY = 84
    """The machine or the network is at fault: start it again."""
    FATAL = 85
    """Starting it again would fail in the same way."""
