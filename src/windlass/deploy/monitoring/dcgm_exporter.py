"""Values for the Helm chart of NVIDIA's DCGM exporter that give its series the labels of jobs.

The exporter adds namespace and pod of the process that uses a GPU, and with `enablePodLabels` the labels of that pod,
with `_` for every character that Prometheus does not allow. Source: values.yaml of dcgm-exporter 4.2.
"""

from __future__ import annotations

import re
from typing import Any

from windlass.jobs.kubernetes import labels
from windlass.jobs.kubernetes.manifest_reader import Manifest
from windlass.jobs.kubernetes.pods import pod_assembly


def exporter_values() -> Manifest:
    """`job_id` as in the metrics of Windlass, `role` and `replica` of the pod; other labels of pods are dropped.

    `honorLabels` keeps namespace and pod of the workload; else they would be those of the exporter.
    """
    relabelings = [
        _relabel("job_id", "$1/$2", "(.+);(.+)", "namespace", _exported(labels.JOB_NAME)),
        _relabel(
            "job_id",
            "$1/$2/$3",
            "(.+);(.+)-controller;(.+)",
            "namespace",
            _exported(pod_assembly.OPERATOR_NAME),
            _exported(pod_assembly.JOB_NAME),
        ),
        _relabel(
            "job_id",
            "$1/mpijob/$2",
            "(.+);mpi-operator;(.+)",
            "namespace",
            _exported(pod_assembly.OPERATOR_NAME),
            _exported(pod_assembly.JOB_NAME),
        ),
        *(_relabel("role", "$1", "(.+)", _exported(each)) for each in (labels.ROLE, pod_assembly.REPLICA_TYPE)),
        *(
            _relabel("replica", "$1", "(.+)", _exported(each))
            for each in (labels.REPLICA_INDEX, pod_assembly.REPLICA_INDEX)
        ),
        {"action": "labeldrop", "regex": "(windlass_dev|training_kubeflow_org)_.+"},
    ]
    monitor = {"enabled": True, "honorLabels": True, "interval": "15s", "metricRelabelings": relabelings}
    return {"kubernetes": {"enablePodLabels": True}, "serviceMonitor": monitor}


def _exported(label: str) -> str:
    """Name of a pod's label among those of a series."""
    return re.sub(r"[^a-zA-Z0-9_]", "_", label)


def _relabel(target: str, replacement: str, pattern: str, *sources: str) -> dict[str, Any]:
    rule = {"sourceLabels": list(sources), "regex": pattern, "targetLabel": target, "replacement": replacement}
    return {"action": "replace", **rule}
