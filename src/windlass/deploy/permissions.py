"""Permissions of the operator, each with its purpose.

Least privilege: the table contains only verbs that are needed. `windlass operator check` names missing permissions with
their purpose.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from windlass.deploy import kubeflow, own_kinds, pod_group, trainer
from windlass.jobs.kubernetes import job_admission, query_api
from windlass.jobs.kubernetes.gang_dialects import OBJECT_KINDS, POD_GROUPS, Dialect
from windlass.jobs.kubernetes.schedules import cron_training_job

WATCH = ("list", "watch")
CORE = ""


def _group_of(dialect: Dialect) -> str:
    return OBJECT_KINDS[dialect].api_version.partition("/")[0]


_GANGS = tuple(sorted({_group_of(each) for each in POD_GROUPS}))
"""API groups of all PodGroup kinds."""
_ANNOTATED_GANGS = tuple(group for group in _GANGS if group.startswith(("scheduling.x-k8s", "scheduling.sigs")))
"""API groups of PodGroups whose status has no field for a reason."""
_KUEUE = "kueue.x-k8s.io"
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
    Permission("watch pending and running pods", CORE, ("pods",), ("get", *WATCH)),
    Permission("bind pods to nodes", CORE, ("pods/binding",), ("create",)),
    Permission("write why a pod is pending", CORE, ("pods/status",), ("patch",)),
    Permission("preempt pods within their disruption budgets", CORE, ("pods/eviction",), ("create",)),
    Permission("watch nodes, and namespaces with their default queues", CORE, ("nodes", "namespaces"), WATCH),
    Permission("find the nodes of bound volumes", CORE, ("persistentvolumes", "persistentvolumeclaims"), WATCH),
    Permission("find volumes that wait for their pod's node", "storage.k8s.io", ("storageclasses",), WATCH),
    Permission("select the node of such a volume", CORE, ("persistentvolumeclaims",), ("patch",)),
    Permission("read the priority of gangs", "scheduling.k8s.io", ("priorityclasses",), WATCH),
    *(Permission("watch external gangs", group, ("podgroups",), WATCH) for group in _GANGS),
    *(Permission("write why such a gang is pending", group, _status("podgroups"), ("patch",)) for group in _GANGS),
    *(Permission("annotate it with the reason", group, ("podgroups",), ("patch",)) for group in _ANNOTATED_GANGS),
    Permission("watch JobSets, whose pods are gangs", "jobset.x-k8s.io", ("jobsets",), WATCH),
    Permission("watch Jobs, whose pods may be gangs", "batch", ("jobs",), WATCH),
    Permission(
        "watch queues, the policy and reservations",
        own_kinds.GROUP,
        ("queues", "schedulingpolicies", "reservations"),
        WATCH,
    ),
    Permission(
        "write the usage of queues",
        own_kinds.GROUP,
        _status("queues", "schedulingpolicies", "reservations"),
        ("patch",),
    ),
    Permission("write events, and count repeated ones", CORE, ("events",), ("create", "patch")),
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
        "watch jobs, and delete them after their time to live",
        kubeflow.GROUP,
        _KUBEFLOW,
        ("get", *WATCH, "delete"),
    ),
    Permission("write the jobs' state and status", kubeflow.GROUP, _status(*_KUBEFLOW), ("patch",)),
    Permission("own the objects of a job", kubeflow.GROUP, _finalizers(*_KUBEFLOW), ("update",)),
    Permission("watch and delete TrainingJobs", own_kinds.GROUP, ("trainingjobs",), ("get", *WATCH, "delete")),
    Permission("watch schedules", own_kinds.GROUP, (cron_training_job.PLURAL,), ("get", *WATCH)),
    Permission("write the schedules' status", own_kinds.GROUP, _status(cron_training_job.PLURAL), ("patch",)),
    Permission("own the runs of a schedule", own_kinds.GROUP, _finalizers(cron_training_job.PLURAL), ("update",)),
    Permission("create the runs of schedules", own_kinds.GROUP, ("trainingjobs",), ("create",)),
    Permission(
        "create runs for the users of schedules", own_kinds.GROUP, (cron_training_job.PLURAL,), (cron_training_job.RUN,)
    ),
    Permission("write the jobs' state and status", own_kinds.GROUP, _status("trainingjobs"), ("patch",)),
    Permission("own the objects of a job", own_kinds.GROUP, _finalizers("trainingjobs"), ("update",)),
    Permission("watch and delete TrainJobs", trainer.GROUP, ("trainjobs",), ("get", *WATCH, "delete")),
    Permission("write the jobs' state and status", trainer.GROUP, _status("trainjobs"), ("patch",)),
    Permission("own the objects of a job", trainer.GROUP, _finalizers("trainjobs"), ("update",)),
    Permission("find the runtimes of TrainJobs", trainer.GROUP, ("trainingruntimes", "clustertrainingruntimes"), WATCH),
    Permission("create and delete a job's pods", CORE, ("pods",), ("create", "delete")),
    Permission("create a PodGroup for a gang, if configured", pod_group.GROUP, ("podgroups",), ("get", "create")),
    Permission("diagnose pods that do not start", CORE, ("events",), ("list",)),
    Permission("record the logs of pods before their deletion", CORE, ("pods/log",), ("get",)),
    # An object of the same name may belong to an earlier job and be deleted with it, so it must be readable.
    Permission("give pods DNS names", CORE, ("services",), ("get", "list", "create", "delete")),
    Permission("give MPI's launcher its hostfile", CORE, ("configmaps",), ("get", "create", "patch")),
    Permission("create the volume claims of a TrainJob", CORE, ("persistentvolumeclaims",), ("get", "create")),
    Permission("give the pods of a gang their keys", CORE, ("secrets",), ("create",)),
    Permission("run MPI's launcher", "batch", ("jobs",), ("get", "create", "delete")),
    Permission("queue a job in a queue of Kueue, and leave it", _KUEUE, ("workloads",), ("create", "delete", *WATCH)),
    Permission("report the state of such a job to Kueue", _KUEUE, _status("workloads"), ("patch",)),
    Permission("find the nodes of Kueue's flavors", _KUEUE, ("resourceflavors",), WATCH),
    Permission("autoscale elastic jobs", "autoscaling", ("horizontalpodautoscalers",), ("get", "create")),
)
"""Further permissions to run jobs."""

MPIJOB_V1 = (
    Permission("let the launcher of an MPIJob v1 exec into its workers", CORE, ("serviceaccounts",), ("get", "create")),
    Permission(
        "let the launcher of an MPIJob v1 exec into its workers",
        "rbac.authorization.k8s.io",
        ("roles", "rolebindings"),
        ("get", "create"),
    ),
    Permission(
        "let the launcher of an MPIJob v1 exec into workers that are added",
        "rbac.authorization.k8s.io",
        ("roles",),
        ("patch",),
    ),
    # An account may grant only permissions that it has.
    Permission("let the launcher of an MPIJob v1 exec into its workers", CORE, ("pods/exec",), ("create",)),
)
"""Permissions to run MPIJobs of version v1, in a role of their own that an installation may leave out."""

FOREIGN_POD_GROUPS = {
    dialect: Permission(
        "create a PodGroup for another scheduler", _group_of(dialect), ("podgroups",), ("get", "create")
    )
    for dialect in (Dialect.VOLCANO, Dialect.NATIVE)
}
"""Permissions to write the PodGroups of other schedulers, each in a role of its own: an installation has those that its
rules for other schedulers need. Coscheduling's are among those of all jobs."""

CORDON = (Permission("cordon nodes that diagnoses prove to be bad, if configured", CORE, ("nodes",), ("patch",)),)
"""Permission in a role of its own that an installation has only with a limit on these nodes."""

CULL = (Permission("stop Notebooks that are idle, if configured", kubeflow.GROUP, ("notebooks",), ("patch",)),)
"""Permission in a role of its own that an installation has only with a limit on their idle time."""

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


def own_permissions(name: str) -> tuple[Permission, ...]:
    """Permissions in the operator's namespace: the lease that makes one replica the leader, its key and its pods.

    `name`: that of the operator, and of its lease.
    """
    group = "coordination.k8s.io"
    return (
        Permission("be elected", group, ("leases",), ("create",)),  # a rule with names does not cover creation
        Permission("stay elected", group, ("leases",), ("get", "update"), (name,)),
        Permission("read the key of its TLS ports", CORE, ("secrets",), ("get",), (query_api.CERTIFICATE,)),
        Permission("keep the key of its TLS ports", CORE, ("secrets",), ("create",)),
        Permission("label the leader's pod", CORE, ("pods",), ("patch",)),
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
