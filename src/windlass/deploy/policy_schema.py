"""Schema of `spec.runPolicy`, which the kinds of both operators share.

The rules are those of `jobs.kubernetes.kinds.run_policy`. `managedBy` and the queue cannot be changed, as upstream.
"""

from __future__ import annotations

from windlass.deploy.structural_schema import (
    INT32,
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
from windlass.jobs.kubernetes.kinds.run_policy import CLEAN_POD_POLICIES, MANAGERS

_MAX_MANAGER = 100
_MANAGED_BY = "has({0}.runPolicy) && has({0}.runPolicy.managedBy) ? {0}.runPolicy.managedBy : ''"

MANAGED_BY_STAYS = rule(
    f"({_MANAGED_BY.format('self')}) == ({_MANAGED_BY.format('oldSelf')})",
    "runPolicy.managedBy cannot be changed; delete the job and make it anew",
)
"""Rule of the whole spec: the field cannot be added or removed either."""


def run_policy_schema() -> Schema:
    """Schema of `spec.runPolicy`."""
    managed = rule(
        f"self == '' || self in [{', '.join(repr(name) for name in MANAGERS)}]",
        f"expects {' or '.join(MANAGERS)}; leave it out for the operator that serves the kind",
    )
    return closed_object(
        {
            "cleanPodPolicy": one_of(("", *CLEAN_POD_POLICIES), "Pods deleted after the end of the job; default None."),
            "ttlSecondsAfterFinished": integer(0, INT32, "Seconds from the end of the job to its deletion."),
            "activeDeadlineSeconds": integer64(0, "Seconds after which an active job fails."),
            "backoffLimit": integer(0, INT32, "Number of restarts before the job fails."),
            "suspend": boolean("Whether the job is suspended, without pods."),
            "managedBy": with_rules(text("Controller of the job.", maxLength=_MAX_MANAGER), managed),
            "restartMode": one_of(
                ("", "gang", "pod"),
                "gang: a lost pod restarts all pods as a new generation. pod: each pod restarts alone.",
            ),
            "schedulingPolicy": _scheduling(),
        },
        "Policy of the whole job.",
    )


def _scheduling() -> Schema:
    stays = rule("self == oldSelf", "cannot be changed; delete the job and make it anew")
    return closed_object(
        {
            "minAvailable": integer(0, INT32, "Pods without which the job waits; default all."),
            "queue": with_rules(text("Queue of the job.", maxLength=253), stays),
            "priorityClass": text("PriorityClass of the gang."),
            "minResources": mapping(any_value(), "Has no effect."),
            "scheduleTimeoutSeconds": integer(-(2**31), INT32, "Has no effect."),
        }
    )
