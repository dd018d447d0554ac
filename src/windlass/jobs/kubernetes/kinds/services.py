"""Makes the headless service of each pod, which gives the pod a stable name.

Source: kubeflow/training-operator v1.9, pkg/controller.v1/common/service.go.
"""

from __future__ import annotations

from windlass.jobs.kubernetes.manifest_reader import Manifest
from windlass.jobs.kubernetes.parsed_job import ParsedJob, Replicas
from windlass.jobs.kubernetes.pods.pod_assembly import metadata, replica_labels
from windlass.launch.replica_names import replica_name


def services(parsed: ParsedJob, container: str) -> list[Manifest]:
    """Returns one service for each pod, with the ports of its `container`; none while the job is suspended."""
    if parsed.run_policy.suspend:
        return []
    return [
        _service(parsed, replicas, index, container) for replicas in parsed.replicas for index in range(replicas.count)
    ]


def _service(parsed: ParsedJob, replicas: Replicas, index: int, container: str) -> Manifest:
    labels = replica_labels(parsed, replicas, index)
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": metadata(parsed, replica_name(parsed.name, replicas.role, index), labels),
        "spec": {"clusterIP": "None", "selector": labels, "ports": _ports(replicas, container)},
    }


def _ports(replicas: Replicas, container: str) -> list[Manifest]:
    """The ports by name, each name once."""
    named = {
        port.get("name") or "": port["containerPort"]
        for each in replicas.template["spec"]["containers"]
        if each["name"] == container
        for port in each.get("ports") or []
    }
    return [{"name": name, "port": number} if name else {"port": number} for name, number in named.items()]
