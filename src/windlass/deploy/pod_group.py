"""PodGroup of the coscheduling dialect, for clusters that do not have its definition yet.

Source: kubernetes-sigs/scheduler-plugins v0.34, apis/scheduling/v1alpha1.
"""

from __future__ import annotations

from windlass.deploy.definition import Column, Definition, Version
from windlass.deploy.structural import anything, listing, mapping, moment, opaque, record, text, whole

GROUP, VERSION = "scheduling.x-k8s.io", "v1alpha1"


def pod_group_kinds() -> list[Definition]:
    """The one kind; pods name theirs by the label `pod-group.scheduling.sigs.k8s.io`."""
    spec = record(
        {
            "minMember": whole(0, about="Pods that are bound together or not at all."),
            "minResources": mapping(anything(), "Has no effect."),
            "scheduleTimeoutSeconds": whole(0, about="Has no effect."),
        }
    )
    status = opaque(
        "What became of the gang.",
        phase=text(),
        occupiedBy=text(),
        scheduled=whole(0),
        running=whole(0),
        succeeded=whole(0),
        failed=whole(0),
        scheduleStartTime=moment(),
        conditions=listing(opaque()),
    )
    columns = (
        Column("Phase", ".status.phase"),
        Column("MinMember", ".spec.minMember", "integer"),
        Column("Running", ".status.running", "integer"),
        Column("Succeeded", ".status.succeeded", "integer"),
        Column("Failed", ".status.failed", "integer"),
        Column("Age", ".metadata.creationTimestamp", "date"),
    )
    version = Version(VERSION, "A gang of pods that somebody else makes.", spec, status, columns, needs_spec=False)
    return [Definition(GROUP, "PodGroup", "podgroups", ("pg", "pgs"), (version,))]
