"""Permissions of the operator, each with its purpose.

Least privilege: the table contains only verbs that are needed. `windlass operator check` names missing permissions with
their purpose.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from windlass.deploy import kubeflow, own_kinds, pod_group, trainer
from windlass.jobs.kubernetes import job_admission, query_api
from windlass.jobs.kubernetes.external.membership import POD_GROUPS, GangKey, object_of

SEE = ("get", "list", "watch")
CORE = ""
_GANGS = tuple(
    sorted({kind.api_version.partition("/")[0] for each in POD_GROUPS if (kind := object_of(GangKey("", "", each)))})
)
"""API groups of all PodGroup kinds."""
_KUBEFLOW = tuple(each.plural for each in kubeflow.kubeflow_kinds())


@dataclass(frozen=True, slots=True)
class Permission:
    """Verbs on resources of an API group, with their purpose."""

    purpose: str
    group: str
    resources: tuple[str, ...]
    verbs: tuple[str, ...]
    names: tuple[str, ...] = ()
    """Names of the only objects allowed; empty: all objects."""


def _status(*plurals: str) -> tuple[str, ...]:
    return tuple(f"{plural}/status" for plural in plurals)


def _finalizers(*plurals: str) -> tuple[str, ...]:
    return tuple(f"{plural}/finalizers" for plural in plurals)


SCHEDULING = (
    Permission("watch pending and running pods", CORE, ("pods",), SEE),
    Permission("bind pods to nodes", CORE, ("pods/binding",), ("create",)),
    Permission("write why a pod is pending", CORE, ("pods/status",), ("patch",)),
    Permission("preempt pods within their disruption budgets", CORE, ("pods/eviction",), ("create",)),
    Permission("watch nodes, and namespaces with their default queues", CORE, ("nodes", "namespaces"), SEE),
    Permission("find the nodes of bound volumes", CORE, ("persistentvolumes", "persistentvolumeclaims"), SEE),
    Permission("find volumes that wait for their pod's node", "storage.k8s.io", ("storageclasses",), SEE),
    Permission("select the node of such a volume", CORE, ("persistentvolumeclaims",), ("patch",)),
    Permission("read the priority of gangs", "scheduling.k8s.io", ("priorityclasses",), SEE),
    *(Permission("watch external gangs", group, ("podgroups",), (*SEE, "patch")) for group in _GANGS),
    *(Permission("write why such a gang is pending", group, _status("podgroups"), ("patch",)) for group in _GANGS),
    Permission("watch JobSets, whose pods are gangs", "jobset.x-k8s.io", ("jobsets",), SEE),
    Permission("watch Jobs, whose pods may be gangs", "batch", ("jobs",), SEE),
    Permission("store decisions on pods that are gangs by themselves", CORE, ("pods",), ("patch",)),
    Permission(
        "watch queues, the policy and reservations",
        own_kinds.GROUP,
        ("queues", "schedulingpolicies", "reservations"),
        SEE,
    ),
    Permission(
        "write the usage of queues",
        own_kinds.GROUP,
        _status("queues", "schedulingpolicies", "reservations"),
        ("patch",),
    ),
    Permission("check the heartbeat of a silent node's kubelet", "coordination.k8s.io", ("leases",), SEE),
    Permission("write events", "events.k8s.io", ("events",), ("create", "patch")),
    Permission("find the served kinds", "apiextensions.k8s.io", ("customresourcedefinitions",), SEE),
    Permission("detect other operators", "apps", ("deployments",), ("list",)),
    Permission(
        "know whether the users of jobs were checked at admission",
        job_admission.GROUP,
        ("validatingadmissionpolicies", "validatingadmissionpolicybindings"),
        ("get",),
        (job_admission.POLICY,),
    ),
)
"""Permissions for scheduling."""

JOBS = (
    Permission(
        "watch jobs, store their state, and delete them after their time to live",
        kubeflow.GROUP,
        _KUBEFLOW,
        (*SEE, "patch", "delete"),
    ),
    Permission("write the jobs' status", kubeflow.GROUP, _status(*_KUBEFLOW), ("get", "patch", "update")),
    Permission("own the objects of a job", kubeflow.GROUP, _finalizers(*_KUBEFLOW), ("update",)),
    Permission("watch, change and delete TrainingJobs", own_kinds.GROUP, ("trainingjobs",), (*SEE, "patch", "delete")),
    Permission("write the jobs' status", own_kinds.GROUP, _status("trainingjobs"), ("get", "patch", "update")),
    Permission("own the objects of a job", own_kinds.GROUP, _finalizers("trainingjobs"), ("update",)),
    Permission("watch, change and delete TrainJobs", trainer.GROUP, ("trainjobs",), (*SEE, "patch", "delete")),
    Permission("watch the runtimes of TrainJobs", trainer.GROUP, ("trainingruntimes", "clustertrainingruntimes"), SEE),
    Permission("write the jobs' status", trainer.GROUP, _status("trainjobs"), ("get", "patch", "update")),
    Permission("own the objects of a job", trainer.GROUP, _finalizers("trainjobs"), ("update",)),
    Permission("create and delete a job's pods", CORE, ("pods",), ("create", "delete")),
    Permission("create a PodGroup for a gang, if configured", pod_group.GROUP, ("podgroups",), ("create", "delete")),
    Permission("record the logs of pods before their deletion", CORE, ("pods/log",), ("get",)),
    # An object of the same name may belong to an earlier job and be deleted with it, so it must be readable.
    Permission("give pods DNS names", CORE, ("services",), ("get", "create", "delete")),
    Permission("give MPI's launcher its hostfile", CORE, ("configmaps",), ("get", "create", "patch")),
    Permission("give the pods of a gang their keys", CORE, ("secrets",), ("create",)),
    Permission("run MPI's launcher", "batch", ("jobs",), ("create", "patch", "delete")),
    Permission(
        "autoscale elastic jobs",
        "autoscaling",
        ("horizontalpodautoscalers",),
        ("get", "create", "patch", "delete"),
    ),
    Permission("let the launcher of an MPIJob v1 exec into its workers", CORE, ("serviceaccounts",), ("get", "create")),
    Permission(
        "let the launcher of an MPIJob v1 exec into its workers",
        "rbac.authorization.k8s.io",
        ("roles", "rolebindings"),
        ("get", "create"),
    ),
    # An account may grant only permissions that it has.
    Permission("let the launcher of an MPIJob v1 exec into its workers", CORE, ("pods/exec",), ("create",)),
)
"""Further permissions to run jobs."""

QUERIES = (
    Permission(
        "identify agents, and users who ask with a token", "authentication.k8s.io", ("tokenreviews",), ("create",)
    ),
    Permission(
        "check what a user, or another operator, may do", "authorization.k8s.io", ("subjectaccessreviews",), ("create",)
    ),
    Permission(
        "tell the API server the certificate of the port for queries",
        "apiregistration.k8s.io",
        ("apiservices",),
        ("get", "patch"),
        (query_api.API_SERVICE,),
    ),
)
"""Permissions to answer queries of users."""


def lease_permissions(lease: str) -> tuple[Permission, ...]:
    """Permissions in the operator's namespace: the lease that makes one replica the leader, and its own key."""
    group = "coordination.k8s.io"
    return (
        Permission("be elected", group, ("leases",), ("create",)),  # a rule with names does not cover creation
        Permission("stay elected", group, ("leases",), ("get", "update", "patch"), (lease,)),
        Permission("read the key of its TLS ports", CORE, ("secrets",), ("get",), (query_api.CERTIFICATE,)),
    )


def rules(permissions: Iterable[Permission]) -> list[dict[str, list[str]]]:
    """Rules of a role with these permissions."""
    return [_rule(permission) for permission in permissions]


def _rule(permission: Permission) -> dict[str, list[str]]:
    rule = {
        "apiGroups": [permission.group],
        "resources": list(permission.resources),
        "verbs": list(permission.verbs),
    }
    return {**rule, "resourceNames": list(permission.names)} if permission.names else rule
