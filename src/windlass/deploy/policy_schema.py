"""The schema of `spec.runPolicy`, which the kinds of both operators share.

The rules are those of `jobs.kubernetes.kinds.run_policy`. `managedBy` and the queue cannot be changed, as upstream.
"""

from __future__ import annotations

from windlass.deploy.structural_schema import (
    INT32,
    Rule,
    Schema,
    any_value,
    boolean,
    closed_object,
    integer,
    integer64,
    mapping,
    one_of,
    rule,
    text,
    with_rules,
)
from windlass.jobs.kubernetes.kinds.run_policy import CLEAN, MANAGERS

_MANAGER_MOST = 100
_MANAGED_BY = "has({0}.runPolicy) && has({0}.runPolicy.managedBy) ? {0}.runPolicy.managedBy : ''"

MANAGED_BY_STAYS = rule(
    f"({_MANAGED_BY.format('self')}) == ({_MANAGED_BY.format('oldSelf')})",
    "runPolicy.managedBy cannot be changed; delete the job and make it anew",
)
"""Of the whole spec: also whether it is there stays."""


def run_policy_schema() -> Schema:
    """Of `spec.runPolicy`."""
    managed = rule(
        f"self == '' || self in [{', '.join(repr(name) for name in MANAGERS)}]",
        f"expects {' or '.join(MANAGERS)}; leave it out for whoever serves the kind",
    )
    return closed_object(
        {
            "cleanPodPolicy": one_of(("", *CLEAN), "Which pods are deleted when the job has ended; None if left out."),
            "ttlSecondsAfterFinished": integer(0, INT32, "The job is deleted so long after its end."),
            "activeDeadlineSeconds": integer64(0, "The job fails when it was active so long."),
            "backoffLimit": integer(0, INT32, "Restarts before the job fails."),
            "suspend": boolean("No pods while it is true."),
            "managedBy": with_rules(text("Who runs the job.", maxLength=_MANAGER_MOST), managed),
            "restartMode": one_of(
                ("", "gang", "pod"),
                "gang: one lost pod restarts all of them, as a new generation. pod: each restarts alone.",
            ),
            "schedulingPolicy": _scheduling(),
        },
        "What holds for the job as a whole.",
    )


def available_rule(pods: str) -> Rule:
    """Of the whole spec: `minAvailable` must be possible. `pods`: their number, in CEL."""
    written = "self.runPolicy.schedulingPolicy.minAvailable"
    there = " || ".join(f"!has({path})" for path in ("self.runPolicy", "self.runPolicy.schedulingPolicy", written))
    return rule(
        f"{there} || {written} <= {pods}",
        "runPolicy.schedulingPolicy.minAvailable must be at most the pods that there are",
    )


def _scheduling() -> Schema:
    stays = rule("self == oldSelf", "cannot be changed; delete the job and make it anew")
    return closed_object(
        {
            "minAvailable": integer(0, INT32, "Pods that must be there for the job to run; all if left out."),
            "queue": with_rules(text("The Queue that it is in.", maxLength=253), stays),
            "priorityClass": text("The PriorityClass of the gang."),
            "minResources": mapping(any_value(), "Has no effect."),
            "scheduleTimeoutSeconds": integer(-(2**31), INT32, "Has no effect."),
        }
    )
