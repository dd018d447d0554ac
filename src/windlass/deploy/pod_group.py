"""PodGroup of the coscheduling dialect, for clusters that do not have its definition yet.

Source: kubernetes-sigs/scheduler-plugins v0.34, apis/scheduling/v1alpha1.
"""

from __future__ import annotations

from windlass.deploy.definition import Definition, PrinterColumn, Version
from windlass.deploy.structural_schema import (
    any_value,
    array,
    closed_object,
    integer,
    mapping,
    open_object,
    text,
    timestamp,
)

GROUP, VERSION = "scheduling.x-k8s.io", "v1alpha1"


def pod_group_kinds() -> list[Definition]:
    """Definition of PodGroup. Pods name their PodGroup in the label `pod-group.scheduling.sigs.k8s.io`."""
    spec = closed_object(
        {
            "minMember": integer(0, about="Number of pods that are bound together or not at all."),
            "minResources": mapping(any_value(), "Has no effect."),
            "scheduleTimeoutSeconds": integer(0, about="Has no effect."),
        }
    )
    status = open_object(
        "Observed state of the gang.",
        phase=text(),
        occupiedBy=text(),
        scheduled=integer(0),
        running=integer(0),
        succeeded=integer(0),
        failed=integer(0),
        scheduleStartTime=timestamp(),
        conditions=array(open_object()),
    )
    columns = (
        PrinterColumn("Phase", ".status.phase"),
        PrinterColumn("MinMember", ".spec.minMember", "integer"),
        PrinterColumn("Running", ".status.running", "integer"),
        PrinterColumn("Succeeded", ".status.succeeded", "integer"),
        PrinterColumn("Failed", ".status.failed", "integer"),
        PrinterColumn("Age", ".metadata.creationTimestamp", "date"),
    )
    version = Version(
        VERSION, "A gang of pods that another controller creates.", spec, status, columns, needs_spec=False
    )
    return [Definition(GROUP, "PodGroup", "podgroups", ("pg", "pgs"), (version,))]
