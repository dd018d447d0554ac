"""The schema of a job's status: what the operators of these kinds write, and what Windlass must remember."""

from __future__ import annotations

from windlass.deploy.structural import (
    Schema,
    listing,
    long,
    mapping,
    moment,
    number,
    opaque,
    record,
    text,
    whole,
    words,
)


def status_schema() -> Schema:
    """Of any kind of job. `windlass` is the operator's own and may hold anything."""
    return opaque(
        "What became of the job.",
        conditions=listing(_condition()),
        replicaStatuses=mapping(_replicas()),
        startTime=moment("When its pods were first made, or made anew after a suspension."),
        completionTime=moment("When it ended."),
        lastReconcileTime=moment(),
        state=text("What windlass queue calls its state: Created, Queued, Running, Cancelled and so on."),
        attempts=whole(0, about="How often the job has been started, the first time included."),
        recoveries=whole(0, about="Failures that agents have put right in pods that stayed, counted there as well."),
        training=_training(),
        windlass=opaque("What the operator remembers of the job; of no use to anybody else."),
    )


def _training() -> Schema:
    return opaque(
        "What the agents in its pods have told, if it has any; written every ten seconds at most.",
        generation=whole(0, about="Of its ranks: counts their starts, with the gang and in their pods."),
        lastHang=text("Which rank hung where, the last time."),
        step=long(0),
        steps=long(0, "As many are planned."),
        loss=number(),
        stepMilliseconds=number("Of the slowest rank, on average."),
        samplesPerSecond=number(),
        utilisation=number("Of the devices' peak: MFU, from 0 to 1."),
        memory=number("Bytes of a device at most, on any rank."),
        time=moment("When this was written."),
    )


def _condition() -> Schema:
    return {
        **opaque(
            type=text(),
            status=words(("True", "False", "Unknown")),
            reason=text(),
            message=text(),
            lastUpdateTime={**moment(), "nullable": True},
            lastTransitionTime={**moment(), "nullable": True},
        ),
        "required": ["type", "status"],
    }


def _replicas() -> Schema:
    return record(
        {
            "active": whole(0),
            "succeeded": whole(0),
            "failed": whole(0),
            "selector": text("Which pods these are, for autoscalers."),
            "labelSelector": opaque(),
        }
    )
