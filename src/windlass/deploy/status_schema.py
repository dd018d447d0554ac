"""Schema of a job's status: fields of the original operators, and fields of Windlass."""

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
    """Schema of the status of any kind of job. `windlass` is the operator's internal state, with any fields."""
    return open_object(
        "Observed state of the job.",
        conditions=array(_condition()),
        replicaStatuses=mapping(_replicas()),
        startTime=timestamp("Time of the first creation of pods, or of their creation after a suspension."),
        completionTime=timestamp("Time of the end."),
        lastReconcileTime=timestamp(),
        state=text("State as shown by windlass queue: Created, Queued, Running, Cancelled and so on."),
        attempts=integer(0, about="Number of starts of the job, including the first."),
        recoveries=integer(0, about="Failures that agents have recovered from within running pods."),
        training=_training(),
        windlass=open_object("Internal state of the operator."),
    )


def notebook_status_schema() -> Schema:
    """Schema of the status of a Notebook, which web pages read: pods that are ready, and the state of the server."""
    schema = status_schema()
    shown = {"readyReplicas": integer(0), "containerState": open_object("State of the container that serves.")}
    return {**schema, "properties": {**schema["properties"], **shown}}


def _training() -> Schema:
    return open_object(
        "Reports of the agents in the job's pods, written every ten seconds at most.",
        generation=integer(0, about="Number of starts of the ranks, with the gang and within their pods."),
        lastHang=text("Rank and phase of the last hang."),
        step=integer64(0),
        steps=integer64(0, "Planned number of steps."),
        loss=number(),
        stepMilliseconds=number("Mean step time of the slowest rank."),
        samplesPerSecond=number(),
        utilisation=number("Model FLOPs utilisation (MFU), from 0 to 1."),
        memory=number("Largest device memory of any rank, in bytes."),
        time=timestamp("Time of the report."),
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
            "selector": text("Label selector of these pods, for autoscalers."),
            "labelSelector": open_object(),
        }
    )
