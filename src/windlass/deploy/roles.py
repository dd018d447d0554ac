"""Roles and bindings: those of the operator, and rules added to the roles of users."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from windlass.deploy.crds import definitions
from windlass.deploy.labels import NAME, labels_of
from windlass.deploy.permissions import (
    CORDON,
    CULL,
    FOREIGN_POD_GROUPS,
    JOBS,
    MPIJOB_V1,
    QUERIES,
    SCHEDULING,
    WATCH,
    Permission,
    own_permissions,
    rules,
)
from windlass.jobs.kubernetes import job_admission, query_api
from windlass.jobs.kubernetes.gang_dialects import Dialect
from windlass.jobs.kubernetes.manifest_reader import Manifest
from windlass.jobs.kubernetes.operator_names import OPERATOR

_RBAC = "rbac.authorization.k8s.io"
_QUEUES = f"{NAME}-queues"
_CHANGE = ("create", "update", "patch", "delete", "deletecollection")


def operator_roles(
    namespace: str, permissions: Sequence[Permission] = (*SCHEDULING, *JOBS, *QUERIES)
) -> list[Manifest]:
    """Roles of the operator's account: permissions in the cluster, and those in its own namespace."""
    subject = _account(namespace)
    labels = labels_of("operator")
    own = {"name": OPERATOR, "namespace": namespace, "labels": labels}
    return [
        {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": own},
        _role("ClusterRole", {"name": OPERATOR, "labels": labels}, permissions),
        _binding("ClusterRoleBinding", "ClusterRole", {"name": OPERATOR, "labels": labels}, subject),
        _role("Role", own, own_permissions(OPERATOR)),
        _binding("RoleBinding", "Role", own, subject),
        _front_proxy_reader(subject),
    ]


def mpijob_v1_roles(namespace: str) -> list[Manifest]:
    """Roles with which the operator runs MPIJobs of version v1: it lets their launchers exec into their workers."""
    about = {"name": f"{OPERATOR}-mpijob-v1", "labels": labels_of("operator")}
    return [
        _role("ClusterRole", about, MPIJOB_V1),
        _binding("ClusterRoleBinding", "ClusterRole", about, _account(namespace)),
    ]


def cordon_roles(namespace: str) -> list[Manifest]:
    """Roles with which the operator cordons nodes that diagnoses prove to be bad."""
    about = {"name": f"{OPERATOR}-cordon", "labels": labels_of("operator")}
    return [
        _role("ClusterRole", about, CORDON),
        _binding("ClusterRoleBinding", "ClusterRole", about, _account(namespace)),
    ]


def cull_roles(namespace: str) -> list[Manifest]:
    """Roles with which the operator stops idle Notebooks."""
    about = {"name": f"{OPERATOR}-cull", "labels": labels_of("operator")}
    return [
        _role("ClusterRole", about, CULL),
        _binding("ClusterRoleBinding", "ClusterRole", about, _account(namespace)),
    ]


def pod_group_roles(namespace: str, dialects: Iterable[Dialect]) -> list[Manifest]:
    """Roles with which the operator creates PodGroups of these dialects for other schedulers."""
    return [each for dialect in dialects for each in _pod_group_role(namespace, dialect)]


def _pod_group_role(namespace: str, dialect: Dialect) -> list[Manifest]:
    about = {"name": f"{OPERATOR}-podgroups-{dialect}", "labels": labels_of("operator")}
    return [
        _role("ClusterRole", about, [FOREIGN_POD_GROUPS[dialect]]),
        _binding("ClusterRoleBinding", "ClusterRole", about, _account(namespace)),
    ]


def _account(namespace: str) -> dict[str, str]:
    return {"kind": "ServiceAccount", "name": OPERATOR, "namespace": namespace}


def _front_proxy_reader(subject: Mapping[str, str]) -> Manifest:
    """The right to read by which certificate the API server proves itself to the port for queries."""
    about = {"name": f"{OPERATOR}-front-proxy", "namespace": "kube-system", "labels": labels_of("operator")}
    return _binding("RoleBinding", "Role", about, subject, name="extension-apiserver-authentication-reader")


def user_roles() -> list[Manifest]:
    """Roles of users: view and edit of a namespace include its jobs, and every user may view queues.

    A binding of view to the whole cluster includes queries about all jobs. Queries of the cluster name no jobs of
    namespaces that the user may not view.

    No role grants changes of queues, which belong to the administrator of the cluster. Edit includes to name any queue
    in jobs of the namespace; each queue decides which namespaces it is open to.
    """
    jobs, shared = _plurals(namespaced=True), _plurals(namespaced=False)
    view = [Permission("see jobs", group, plurals, ("get", *WATCH)) for group, plurals in jobs.items()]
    view.append(
        Permission("ask about jobs", query_api.GROUP, (*query_api.OF_JOBS, query_api.SNAPSHOTS), ("get", "list"))
    )
    edit = [Permission("change jobs", group, plurals, _CHANGE) for group, plurals in jobs.items()]
    edit += [
        Permission("resize jobs", group, tuple(f"{plural}/scale" for plural in plurals), ("get", "update", "patch"))
        for group, plurals in _plurals(namespaced=True, scaled=True).items()
    ]
    edit.append(
        Permission("name queues in jobs", job_admission.QUEUE_GROUP, (job_admission.QUEUES,), (job_admission.USE,))
    )
    queues = [Permission("see queues", group, plurals, ("get", *WATCH)) for group, plurals in shared.items()]
    queues.append(Permission("ask about the cluster", query_api.GROUP, query_api.OF_CLUSTER, ("get", "list")))
    about = {"name": _QUEUES, "labels": labels_of("users")}
    everybody = {"apiGroup": _RBAC, "kind": "Group", "name": "system:authenticated"}
    return [
        _aggregated("view", ("view", "edit", "admin"), view),
        _aggregated("edit", ("edit", "admin"), edit),
        _role("ClusterRole", about, queues),
        _binding("ClusterRoleBinding", "ClusterRole", about, everybody),
    ]


def _plurals(*, namespaced: bool, scaled: bool = False) -> dict[str, tuple[str, ...]]:
    """Plural names of the namespaced or cluster-wide kinds, by API group."""
    found: dict[str, tuple[str, ...]] = {}
    for each in definitions():
        scales = any(version.scale for version in each.versions)
        if each.namespaced == namespaced and (scales or not scaled):
            found[each.group] = (*found.get(each.group, ()), each.plural)
    return found


def _aggregated(name: str, into: Sequence[str], permissions: Sequence[Permission]) -> Manifest:
    added = {f"{_RBAC}/aggregate-to-{role}": "true" for role in into}
    return _role("ClusterRole", {"name": f"{NAME}-{name}", "labels": {**labels_of("users"), **added}}, permissions)


def _role(kind: str, metadata: Mapping[str, object], permissions: Sequence[Permission]) -> Manifest:
    return {"apiVersion": f"{_RBAC}/v1", "kind": kind, "metadata": dict(metadata), "rules": rules(permissions)}


def _binding(
    kind: str, role: str, metadata: Mapping[str, object], subject: Mapping[str, str], *, name: str = ""
) -> Manifest:
    """A binding of a role. `role`: its kind; `name`: its name, if that is not the binding's."""
    reference = {"apiGroup": _RBAC, "kind": role, "name": name or metadata["name"]}
    about = dict(metadata)
    return {
        "apiVersion": f"{_RBAC}/v1",
        "kind": kind,
        "metadata": about,
        "roleRef": reference,
        "subjects": [dict(subject)],
    }
