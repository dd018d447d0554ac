"""Roles and their bindings: the operator's own, and what they add to the roles that people have."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from windlass.deploy.crds import definitions
from windlass.deploy.labels import NAME, labels_of
from windlass.deploy.permissions import JOBS, SCHEDULING, SEE, Permission, lease_permissions, rules
from windlass.jobs.kubernetes.manifest_reader import Manifest

OPERATOR = "windlass-operator"
"""The service account, its roles and its lease are all called so."""
_RBAC = "rbac.authorization.k8s.io"
_QUEUES = f"{NAME}-queues"
_CHANGE = ("create", "update", "patch", "delete", "deletecollection")


def operator_roles(namespace: str, permissions: Sequence[Permission] = (*SCHEDULING, *JOBS)) -> list[Manifest]:
    """The operator's account may do this in the whole cluster, and hold its lease in its own namespace."""
    subject = {"kind": "ServiceAccount", "name": OPERATOR, "namespace": namespace}
    labels = labels_of("operator")
    own = {"name": OPERATOR, "namespace": namespace, "labels": labels}
    return [
        {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": own},
        _role("ClusterRole", {"name": OPERATOR, "labels": labels}, permissions),
        _binding("ClusterRoleBinding", "ClusterRole", {"name": OPERATOR, "labels": labels}, subject),
        _role("Role", own, lease_permissions(OPERATOR)),
        _binding("RoleBinding", "Role", own, subject),
    ]


def user_roles() -> list[Manifest]:
    """Who may view or edit a namespace may so with its jobs; queues are everybody's to see.

    They are set by whoever administers the cluster: nothing here grants that.
    """
    jobs, shared = _plurals(namespaced=True), _plurals(namespaced=False)
    view = [Permission("see jobs", group, plurals, SEE) for group, plurals in jobs.items()]
    edit = [Permission("change jobs", group, plurals, _CHANGE) for group, plurals in jobs.items()]
    edit += [
        Permission("resize jobs", group, tuple(f"{plural}/scale" for plural in plurals), ("get", "update", "patch"))
        for group, plurals in _plurals(namespaced=True, scaled=True).items()
    ]
    queues = [Permission("see queues", group, plurals, SEE) for group, plurals in shared.items()]
    about = {"name": _QUEUES, "labels": labels_of("users")}
    everybody = {"apiGroup": _RBAC, "kind": "Group", "name": "system:authenticated"}
    return [
        _aggregated("view", ("view", "edit", "admin"), view),
        _aggregated("edit", ("edit", "admin"), edit),
        _role("ClusterRole", about, queues),
        _binding("ClusterRoleBinding", "ClusterRole", about, everybody),
    ]


def _plurals(*, namespaced: bool, scaled: bool = False) -> dict[str, tuple[str, ...]]:
    """Of the kinds in or outside of namespaces, by group."""
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


def _binding(kind: str, role: str, metadata: Mapping[str, object], subject: Mapping[str, str]) -> Manifest:
    reference = {"apiGroup": _RBAC, "kind": role, "name": metadata["name"]}
    about = dict(metadata)
    return {
        "apiVersion": f"{_RBAC}/v1",
        "kind": kind,
        "metadata": about,
        "roleRef": reference,
        "subjects": [dict(subject)],
    }
