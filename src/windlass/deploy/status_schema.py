"""The schema of a job's status: what the operators of these kinds write, and what Windlass must remember."""

from __future__ import annotations

from windlass.deploy.structural import Schema, listing, mapping, moment, opaque, record, text, whole, words


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
        windlass=opaque("What the operator remembers of the job; of no use to anybody else."),
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
