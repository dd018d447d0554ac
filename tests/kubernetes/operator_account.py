"""The operator's account on a control plane of tests, with exactly the roles that an installation brings."""

from __future__ import annotations

import http.client
import json
from dataclasses import replace
from pathlib import Path
from urllib.parse import urlsplit

from windlass.backends.kubernetes.client.access import Access
from windlass.backends.kubernetes.client.identity import constant_access
from windlass.controlplane import kubeconfig
from windlass.controlplane.cluster import ControlPlane
from windlass.deploy.permissions import FOREIGN_POD_GROUPS
from windlass.deploy.roles import cordon_roles, cull_roles, mpijob_v1_roles, operator_roles, pod_group_roles
from windlass.jobs.kubernetes.manifest_reader import Manifest
from windlass.jobs.kubernetes.operator_names import OPERATOR

NAMESPACE = "default"
"""Namespace of the operator's Lease and of its Secret."""
LEASE = OPERATOR
"""The only Lease that the account may write."""
USER = f"system:serviceaccount:{NAMESPACE}:{OPERATOR}"


def operator_access(plane: ControlPlane, url: str | None = None) -> Access:
    """Access with the rights of an installed operator, and no other."""
    return constant_access(url or plane.url, tls=kubeconfig.read(operator_kubeconfig(plane)).ssl())


def operator_kubeconfig(plane: ControlPlane, url: str | None = None) -> Path:
    """A kubeconfig of the same user; `url` names a proxy."""
    own = plane.folder / "operator.kubeconfig"
    if not own.exists():
        _grant(plane)
        own.write_bytes(plane.user(USER).read_bytes())
    if url is None:
        return own
    file = plane.folder / f"operator-{urlsplit(url).port}.kubeconfig"
    return kubeconfig.write(file, replace(kubeconfig.read(own), url=url))


def _grant(plane: ControlPlane) -> None:
    """Creates the roles. Blocks for milliseconds, so that synchronous callers inside of a running loop can use it."""
    server = urlsplit(plane.url)
    connection = http.client.HTTPSConnection(server.hostname or "", server.port, context=plane.admin.ssl(), timeout=30)
    optional = [
        *mpijob_v1_roles(NAMESPACE),
        *cordon_roles(NAMESPACE),
        *cull_roles(NAMESPACE),
        *pod_group_roles(NAMESPACE, FOREIGN_POD_GROUPS),
    ]
    for manifest in map(_renamed, [*operator_roles(NAMESPACE), *optional]):
        connection.request("POST", _path(manifest), json.dumps(manifest), {"Content-Type": "application/json"})
        answer = connection.getresponse()
        body = answer.read()
        assert answer.status in (201, 409), body
    connection.close()


def _renamed(manifest: Manifest) -> Manifest:
    """Names of its own for roles and bindings: an installation has the usual ones, and its removal deletes them."""
    if not manifest["kind"].endswith(("Role", "RoleBinding")):
        return manifest
    name = f"{manifest['metadata']['name']}-of-tests"
    reference = {"roleRef": {**manifest["roleRef"], "name": name}} if "roleRef" in manifest else {}
    return {**manifest, "metadata": {**manifest["metadata"], "name": name}, **reference}


def _path(manifest: Manifest) -> str:
    group = "api/v1" if manifest["apiVersion"] == "v1" else f"apis/{manifest['apiVersion']}"
    namespace = manifest["metadata"].get("namespace")
    return f"/{group}{f'/namespaces/{namespace}' if namespace else ''}/{manifest['kind'].lower()}s"
