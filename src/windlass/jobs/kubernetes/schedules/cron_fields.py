"""The fields of a CronTrainingJob: those of a CronJob of Kubernetes, with a TrainingJob as template."""

from __future__ import annotations

from windlass.jobs.description.fields import JOB
from windlass.jobs.description.schedule_fields import MAX_KEPT
from windlass.jobs.description.schedule_fields import NAMES as SCHEDULE_FIELDS
from windlass.jobs.schedules.schedule import KEPT_FAILED, KEPT_SUCCEEDED, UTC, ConcurrencyPolicy
from windlass.jobs.syntax.field import Field, Shape, Table
from windlass.jobs.syntax.names import LABEL
from windlass.jobs.syntax.value_types import FLAG, TEXT, ValueType, choice, whole

POLICIES = {
    "Forbid": ConcurrencyPolicy.SKIP,
    "Queue": ConcurrencyPolicy.QUEUE,
    "Replace": ConcurrencyPolicy.REPLACE,
}
"""Names of the policies in objects. Kubernetes' `Allow` is none of them: two runs are never active at once."""
MAX_DEADLINE_S = 10**9
"""Largest starting deadline in seconds."""
MAX_CRON = 200
"""Characters of an expression."""
TRAINING_JOB: Table = tuple(field for field in JOB if field.name not in ("name", "array", *SCHEDULE_FIELDS))
"""Fields of the spec of a TrainingJob."""

_CRON = ValueType("cron expression", {"type": "string", "minLength": 6, "maxLength": MAX_CRON}, TEXT.read, str)
_ZONE = ValueType("name of a time zone", {"type": "string", "minLength": 1, "maxLength": 100}, TEXT.read, str)
_METADATA: Table = (
    Field(
        "labels",
        "Labels of each run.",
        shape=Shape.MAP,
        default="{}",
        example="{team: vision}",
        key_pattern=LABEL,
        key_label="label",
    ),
    Field(
        "annotations",
        "Annotations of each run. Those with which Windlass records users and ends are left out.",
        shape=Shape.MAP,
        default="{}",
        example="{example.com/ticket: '12'}",
        key_label="annotation",
    ),
)
CRON_TRAINING_JOB: Table = (
    Field(
        "schedule",
        "Times of the runs: minute, hour, day of the month, month and day of the week, or @hourly, @daily, @weekly, "
        "@monthly, @yearly.",
        _CRON,
        example='"0 3 * * *"',
    ),
    Field("timeZone", "Time zone of the schedule.", _ZONE, default=UTC, example="Europe/Berlin"),
    Field(
        "concurrencyPolicy",
        "At a time when the previous run has not ended. Forbid: no run. Queue: the run starts when the previous one "
        "has ended; one waits at a time. Replace: the previous one is cancelled first. A schedule starts no run while "
        "another one is active, so that Allow is refused.",
        choice(list(POLICIES)),
        default="Forbid",
        example="Queue",
    ),
    Field(
        "startingDeadlineSeconds",
        "Seconds after which a run that could not start is missed, for example while no operator leads. Of several "
        "missed runs only the latest is made up for.",
        whole(0, MAX_DEADLINE_S),
        default="null (no limit)",
        example="600",
        nullable=True,
    ),
    Field(
        "suspend",
        "Whether no run starts. Times of the suspension are not made up for.",
        FLAG,
        default="false",
        example="true",
    ),
    Field(
        "successfulJobsHistoryLimit",
        "Succeeded runs that are kept; older ones are deleted.",
        whole(0, MAX_KEPT),
        default=str(KEPT_SUCCEEDED),
        example="10",
    ),
    Field(
        "failedJobsHistoryLimit",
        "Failed and cancelled runs that are kept.",
        whole(0, MAX_KEPT),
        default=str(KEPT_FAILED),
        example="5",
    ),
    Field(
        "jobTemplate",
        "The TrainingJob of each run.",
        shape=Shape.TABLE,
        example="{spec: {command: python train.py}}",
        table=(
            Field(
                "metadata",
                "Labels and annotations of each run.",
                shape=Shape.TABLE,
                default="{}",
                example="{labels: {team: vision}}",
                table=_METADATA,
            ),
            Field(
                "spec",
                "Spec of the TrainingJob of each run.",
                shape=Shape.TABLE,
                example="{command: python train.py}",
                table=TRAINING_JOB,
            ),
        ),
    ),
)
