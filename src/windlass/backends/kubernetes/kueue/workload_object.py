"""The Workload of a job: its pods as Kueue counts them, one pod set for each role.

Source: sigs.k8s.io/kueue v0.19, apis/kueue/v1beta2.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import Any

from windlass.backends.kubernetes.client.resources import named
from windlass.core.model.job import Role
from windlass.jobs.kubernetes.kinds.trainingjob import KIND
from windlass.jobs.kubernetes.labels import KUEUE_QUEUE
from windlass.jobs.kubernetes.manifest_reader import Manifest
from windlass.jobs.kubernetes.parsed_job import ParsedJob

_VERSION = "kueue.x-k8s.io/v1beta2"
WORKLOADS = named(_VERSION, "workloads", "Workload")
FLAVORS = named(_VERSION, "resourceflavors", "ResourceFlavor", namespaced=False)
_COUNTED = ("nodeSelector", "affinity", "tolerations", "overhead", "priorityClassName", "runtimeClassName")
"""Fields of a pod that decide which flavors it may have, or how much of them."""
_MARK_LENGTH = 10
_MAX_NAME = 200


def kueue_queue(parsed: ParsedJob) -> str:
    """The LocalQueue of Kueue in which a job is to wait; "": none."""
    return parsed.job.labels.get(KUEUE_QUEUE, "") if parsed.kind == KIND else ""


def workload_name(parsed: ParsedJob) -> str:
    """The name of a job's Workload, which no job of the same name had before."""
    mark = hashlib.sha256(parsed.uid.encode()).hexdigest()[:_MARK_LENGTH]
    return f"{parsed.kind.lower()}-{parsed.name[:_MAX_NAME]}-{mark}"


def workload_object(parsed: ParsedJob, priority: int) -> Manifest:
    """The Workload, owned by the job. `priority`: that of the job in its cluster."""
    owner = {"apiVersion": parsed.api_version, "kind": parsed.kind, "name": parsed.name, "uid": parsed.uid}
    roles = {role.name: role for role in parsed.job.roles}
    one_elastic = sum(role.elastic for role in roles.values()) == 1
    sets = [
        _pod_set(roles[each.role], each.template, may_shrink=one_elastic)
        for each in parsed.replicas
        if each.role in roles
    ]
    return {
        "apiVersion": _VERSION,
        "kind": WORKLOADS.kind,
        "metadata": {
            "name": workload_name(parsed),
            "namespace": parsed.namespace,
            "ownerReferences": [{**owner, "controller": True, "blockOwnerDeletion": True}],
        },
        "spec": {"queueName": kueue_queue(parsed), "priority": priority, "podSets": sets},
    }


def _pod_set(role: Role, template: Mapping[str, Any], *, may_shrink: bool) -> Manifest:
    """The pods of a role. Kueue may admit fewer pods of one role of a job, but at least its minimum."""
    most = role.replicas if role.max_replicas is None else role.max_replicas
    least = {"minCount": role.min_replicas} if may_shrink and role.min_replicas not in (None, most) else {}
    return {"name": role.name, "count": most, **least, "template": {"spec": _counted(template["spec"])}}


def _counted(spec: Mapping[str, Any]) -> Manifest:
    """The spec of a pod without its program: variables may hold secrets, which users of Workloads must not see."""
    kept = {name: spec[name] for name in _COUNTED if name in spec}
    lists = {
        name: [_container(each) for each in spec[name]] for name in ("initContainers", "containers") if spec.get(name)
    }
    return {**kept, **lists, "restartPolicy": "Never"}


def _container(container: Mapping[str, Any]) -> Manifest:
    shown = ("name", "image", "resources", "restartPolicy")
    return {name: container[name] for name in shown if name in container}
