"""The schema of a job's status: what the operators of these kinds write, and what Windlass must remember."""

from __future__ import annotations

from windlass.deploy.structural_schema import (
    Schema,
    array,
    closed_object,
    integer,
    integer64,
    mapping,
    number,
    one_of,
    open_object,
    text,
    timestamp,
)


def status_schema() -> Schema:
    """Of any kind of job. `windlass` is the operator's own and may hold anything."""
    return open_object(
        "What became of the job.",
        conditions=array(_condition()),
        replicaStatuses=mapping(_replicas()),
        startTime=timestamp("When its pods were first made, or made anew after a suspension."),
        completionTime=timestamp("When it ended."),
        lastReconcileTime=timestamp(),
        state=text("What windlass queue calls its state: Created, Queued, Running, Cancelled and so on."),
        attempts=integer(0, about="How often the job has been started, the first time included."),
        recoveries=integer(0, about="Failures that agents have put right in pods that stayed, counted there as well."),
        training=_training(),
        windlass=open_object("What the operator remembers of the job; of no use to anybody else."),
    )


def _training() -> Schema:
    return open_object(
        "What the agents in its pods have told, if it has any; written every ten seconds at most.",
        generation=integer(0, about="Of its ranks: counts their starts, with the gang and in their pods."),
        lastHang=text("Which rank hung where, the last time."),
        step=integer64(0),
        steps=integer64(0, "As many are planned."),
        loss=number(),
        stepMilliseconds=number("Of the slowest rank, on average."),
        samplesPerSecond=number(),
        utilisation=number("Of the devices' peak: MFU, from 0 to 1."),
        memory=number("Bytes of a device at most, on any rank."),
        time=timestamp("When this was written."),
    )


def _condition() -> Schema:
    return {
        **open_object(
            type=text(),
            status=one_of(("True", "False", "Unknown")),
            reason=text(),
            message=text(),
            lastUpdateTime={**timestamp(), "nullable": True},
            lastTransitionTime={**timestamp(), "nullable": True},
        ),
        "required": ["type", "status"],
    }


def _replicas() -> Schema:
    return closed_object(
        {
            "active": integer(0),
            "succeeded": integer(0),
            "failed": integer(0),
            "selector": text("Which pods these are, for autoscalers."),
            "labelSelector": open_object(),
        }
    )
