"""What the operator may do, and what for: the one table of its permissions.

Least privilege: a verb that is not needed is not here. A permission that the operator lacks is named by
`windlass operator check`, with what it is for.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from windlass.deploy import kubeflow, own_kinds, pod_group, trainer
from windlass.jobs.kubernetes.external.membership import POD_GROUPS, Membership, object_of

SEE = ("get", "list", "watch")
CORE = ""
_GANGS = tuple(
    sorted({kind.api_version.partition("/")[0] for each in POD_GROUPS if (kind := object_of(Membership("", "", each)))})
)
"""The groups of every dialect of PodGroup."""
_KUBEFLOW = tuple(each.plural for each in kubeflow.kubeflow_kinds())


@dataclass(frozen=True, slots=True)
class Permission:
    """One rule: verbs on resources of a group."""

    what_for: str
    group: str
    resources: tuple[str, ...]
    verbs: tuple[str, ...]
    names: tuple[str, ...] = ()
    """Only these objects, if any are named."""


def _status(*plurals: str) -> tuple[str, ...]:
    return tuple(f"{plural}/status" for plural in plurals)


def _finalizers(*plurals: str) -> tuple[str, ...]:
    return tuple(f"{plural}/finalizers" for plural in plurals)


SCHEDULING = (
    Permission("see what waits and what runs", CORE, ("pods",), SEE),
    Permission("put pods on nodes", CORE, ("pods/binding",), ("create",)),
    Permission("say why a pod waits", CORE, ("pods/status",), ("patch",)),
    Permission("make room for others, heeding disruption budgets", CORE, ("pods/eviction",), ("create",)),
    Permission("see nodes, and namespaces with their default queues", CORE, ("nodes", "namespaces"), SEE),
    Permission("see where bound volumes can be mounted", CORE, ("persistentvolumes", "persistentvolumeclaims"), SEE),
    Permission("see which volumes wait for their pod's node", "storage.k8s.io", ("storageclasses",), SEE),
    Permission("tell such a volume its node", CORE, ("persistentvolumeclaims",), ("patch",)),
    Permission("see how urgent a gang is", "scheduling.k8s.io", ("priorityclasses",), SEE),
    *(Permission("see gangs of others", group, ("podgroups",), (*SEE, "patch")) for group in _GANGS),
    *(Permission("say why such a gang waits", group, _status("podgroups"), ("patch",)) for group in _GANGS),
    Permission("see JobSets, whose pods are gangs", "jobset.x-k8s.io", ("jobsets",), SEE),
    Permission("see Jobs, whose pods may be gangs", "batch", ("jobs",), SEE),
    Permission("remember what was decided about pods that are gangs by themselves", CORE, ("pods",), ("patch",)),
    Permission(
        "see queues, the policy and reservations",
        own_kinds.GROUP,
        ("queues", "schedulingpolicies", "reservations"),
        SEE,
    ),
    Permission(
        "say how full a queue is",
        own_kinds.GROUP,
        _status("queues", "schedulingpolicies", "reservations"),
        ("patch",),
    ),
    Permission("see whether a silent node's kubelet lives", "coordination.k8s.io", ("leases",), SEE),
    Permission("tell what happened", "events.k8s.io", ("events",), ("create", "patch")),
    Permission("see which kinds there are", "apiextensions.k8s.io", ("customresourcedefinitions",), SEE),
    Permission("notice other operators", "apps", ("deployments",), ("list",)),
)
"""What a scheduler needs."""

JOBS = (
    Permission(
        "see jobs; remember what became of them; delete them when their time is up",
        kubeflow.GROUP,
        _KUBEFLOW,
        (*SEE, "patch", "delete"),
    ),
    Permission("write the jobs' status", kubeflow.GROUP, _status(*_KUBEFLOW), ("get", "patch", "update")),
    Permission("own what a job is made of", kubeflow.GROUP, _finalizers(*_KUBEFLOW), ("update",)),
    Permission("the same for our own jobs", own_kinds.GROUP, ("trainingjobs",), (*SEE, "patch", "delete")),
    Permission("write the jobs' status", own_kinds.GROUP, _status("trainingjobs"), ("get", "patch", "update")),
    Permission("own what a job is made of", own_kinds.GROUP, _finalizers("trainingjobs"), ("update",)),
    Permission("the same for jobs of the trainer v2", trainer.GROUP, ("trainjobs",), (*SEE, "patch", "delete")),
    Permission("see what such jobs are made of", trainer.GROUP, ("trainingruntimes", "clustertrainingruntimes"), SEE),
    Permission("write the jobs' status", trainer.GROUP, _status("trainjobs"), ("get", "patch", "update")),
    Permission("own what a job is made of", trainer.GROUP, _finalizers("trainjobs"), ("update",)),
    Permission("make a job's pods, and delete them", CORE, ("pods",), ("create", "delete")),
    Permission(
        "show a gang as a PodGroup, where that is wanted", pod_group.GROUP, ("podgroups",), ("create", "delete")
    ),
    Permission("keep the logs of pods that go", CORE, ("pods/log",), ("get",)),
    # What has a name already may be an earlier job's, and go with it: so one must be able to look.
    Permission("give pods their names", CORE, ("services",), ("get", "create", "delete")),
    Permission("tell MPI's launcher its hosts", CORE, ("configmaps",), ("get", "create", "patch")),
    Permission("give MPI's pods their SSH keys", CORE, ("secrets",), ("create",)),
    Permission("run MPI's launcher", "batch", ("jobs",), ("create", "patch", "delete")),
    Permission(
        "autoscale elastic jobs",
        "autoscaling",
        ("horizontalpodautoscalers",),
        ("get", "create", "patch", "delete"),
    ),
    Permission("let the launcher of an MPIJob v1 reach its workers", CORE, ("serviceaccounts",), ("get", "create")),
    Permission(
        "let the launcher of an MPIJob v1 reach its workers",
        "rbac.authorization.k8s.io",
        ("roles", "rolebindings"),
        ("get", "create"),
    ),
    # Nobody may grant what he may not do himself.
    Permission("let the launcher of an MPIJob v1 reach its workers", CORE, ("pods/exec",), ("create",)),
)
"""What an operator of jobs needs besides."""


def lease_permissions(lease: str) -> tuple[Permission, ...]:
    """What is needed in the operator's own namespace: the lease that makes one replica the leader."""
    group = "coordination.k8s.io"
    return (
        Permission("be elected", group, ("leases",), ("create",)),  # a rule for names does not hold for what is not yet
        Permission("stay elected", group, ("leases",), ("get", "update", "patch"), (lease,)),
    )


def rules(permissions: Iterable[Permission]) -> list[dict[str, list[str]]]:
    """The permissions as rules of a role."""
    return [_rule(permission) for permission in permissions]


def _rule(permission: Permission) -> dict[str, list[str]]:
    rule = {
        "apiGroups": [permission.group],
        "resources": list(permission.resources),
        "verbs": list(permission.verbs),
    }
    return {**rule, "resourceNames": list(permission.names)} if permission.names else rule
