"""Fields of the specs of our own kinds: those of job and cluster files, and one more.

`name` is left out, since an object has it in its metadata, and `array`, since an array is many objects.
"""

from __future__ import annotations

from typing import NamedTuple

from windlass.jobs.cluster.policy_fields import POLICY, RESERVATION
from windlass.jobs.cluster.queues import QUEUE
from windlass.jobs.kubernetes.schedules.cron_fields import CRON_TRAINING_JOB, TRAINING_JOB
from windlass.jobs.syntax.field import Field, Shape, Table
from windlass.jobs.syntax.names import NODE_NAME
from windlass.jobs.syntax.value_types import named

_LEVEL = named(NODE_NAME, "name", "small letters, digits, dashes and dots")
TOPOLOGY = Field(
    "topology",
    "The levels of the network, widest first, if other labels than the usual ones say them.",
    shape=Shape.TABLES,
    default="[] (the usual labels say them)",
    example="[{level: rack, labels: [example.com/rack]}]",
    table=(
        Field("level", "What jobs call it.", _LEVEL, example="rack"),
        Field(
            "labels",
            "Labels of nodes that say their domain; the first one counts.",
            shape=Shape.LIST,
            example="[example.com/rack]",
        ),
    ),
)
"""Field `topology` of the policy."""


class OwnKind(NamedTuple):
    """One kind, and the fields of its `spec`."""

    name: str
    plural: str
    help: str
    table: Table


def _without(table: Table, *names: str) -> Table:
    return tuple(field for field in table if field.name not in names)


OWN_KINDS = (
    OwnKind(
        "TrainingJob",
        "trainingjobs",
        "A job of Windlass: one gang, restarted whole. Its spec is what a job file says.",
        TRAINING_JOB,
    ),
    OwnKind(
        "CronTrainingJob",
        "crontrainingjobs",
        "A schedule of Windlass: a TrainingJob that is created again at the times of a cron expression.",
        CRON_TRAINING_JOB,
    ),
    OwnKind("Queue", "queues", "A queue: what its jobs may hold, and whose they are.", _without(QUEUE, "name")),
    OwnKind("SchedulingPolicy", "schedulingpolicies", "Scheduling policy.", (*POLICY, TOPOLOGY)),
    OwnKind(
        "Reservation",
        "reservations",
        "Nodes that are reserved for some jobs, or for none, for a time.",
        _without(RESERVATION, "name"),
    ),
)
