"""Files of the kustomize base and its overlays.

The base is the operator without any definition of a kind; an overlay adds the definitions that its clusters need. The
default queue has a folder of its own, because kubectl refuses an object whose kind is created by the same call. So
have the policies that write users, because API servers before 1.36 refuse their kinds, and the rights for MPIJobs of
version v1, for PodGroups of other schedulers, for cordoning nodes and for stopping idle notebooks, because they are
optional. The standard runtimes of TrainJobs are both. So are the objects for the Prometheus operator, whose kinds may
be missing.
"""

from __future__ import annotations

from collections.abc import Iterator

from windlass.deploy.crds import DEFAULT, OWN, POD_GROUPS, crds
from windlass.deploy.installation import IMAGE, permission_objects, policy_objects
from windlass.deploy.job_policies import user_policies
from windlass.deploy.monitoring.prometheus_operator import monitoring_objects
from windlass.deploy.network_policies import job_namespace_policy, operator_policies
from windlass.deploy.operator import Setup, default_queue, namespace, operator_objects
from windlass.deploy.permissions import FOREIGN_POD_GROUPS
from windlass.deploy.roles import cordon_roles, cull_roles, mpijob_v1_roles, pod_group_roles
from windlass.deploy.trainer_objects import trainer_objects
from windlass.jobs.kubernetes.manifest_reader import Manifest
from windlass.jobs.kubernetes.manifests.manifest_file import as_yaml
from windlass.jobs.kubernetes.operator_names import OPERATOR

_BASE = "../../base"
_DEV = (
    {"op": "replace", "path": "/spec/template/spec/containers/0/imagePullPolicy", "value": "Never"},
    {"op": "remove", "path": "/spec/template/spec/priorityClassName"},
)
"""Patches for a cluster on one machine, with an image that is loaded by hand."""


def kustomize_files() -> Iterator[tuple[str, str]]:
    """Path and text of every file."""
    yield from _definitions()
    setup = Setup(IMAGE)
    base = {
        "namespace.yaml": [namespace(setup)],
        "permissions.yaml": permission_objects(setup),
        "admission.yaml": policy_objects(setup),
        "network.yaml": operator_policies(setup),
        "operator.yaml": operator_objects(setup),
    }
    for name, objects in base.items():
        yield f"base/{name}", as_yaml(objects)
    yield "base/kustomization.yaml", _folder(resources=list(base))
    yield "users/users.yaml", as_yaml(user_policies())
    yield "users/kustomization.yaml", _folder(resources=["users.yaml"])
    yield "jobs-network/network.yaml", as_yaml([job_namespace_policy()])
    yield "jobs-network/kustomization.yaml", _folder(resources=["network.yaml"])
    yield "queue/queue.yaml", as_yaml([default_queue()])
    yield "queue/kustomization.yaml", _folder(resources=["queue.yaml"])
    yield "trainer/trainer.yaml", as_yaml(trainer_objects())
    yield "trainer/kustomization.yaml", _folder(resources=["trainer.yaml"])
    yield "mpijob-v1/roles.yaml", as_yaml(mpijob_v1_roles(setup.namespace))
    yield "mpijob-v1/kustomization.yaml", _folder(resources=["roles.yaml"])
    yield "cordon/roles.yaml", as_yaml(cordon_roles(setup.namespace))
    yield "cordon/kustomization.yaml", _folder(resources=["roles.yaml"])
    yield "cull/roles.yaml", as_yaml(cull_roles(setup.namespace))
    yield "cull/kustomization.yaml", _folder(resources=["roles.yaml"])
    yield "monitoring/monitoring.yaml", as_yaml(monitoring_objects(setup))
    yield "monitoring/kustomization.yaml", _folder(resources=["monitoring.yaml"])
    for dialect in FOREIGN_POD_GROUPS:
        yield f"podgroups-{dialect}/roles.yaml", as_yaml(pod_group_roles(setup.namespace, [dialect]))
        yield f"podgroups-{dialect}/kustomization.yaml", _folder(resources=["roles.yaml"])
    for overlay, parts in _overlays().items():
        yield f"overlays/{overlay}/kustomization.yaml", _folder(**parts)


def _definitions() -> Iterator[tuple[str, str]]:
    """Files of the definitions: a folder for each group, a file for each definition."""
    for group in (*DEFAULT, POD_GROUPS):
        found = {f"{each['metadata']['name']}.yaml": each for each in crds([group])}
        for name, definition in found.items():
            yield f"crds/{group}/{name}", as_yaml([definition])
        yield f"crds/{group}/kustomization.yaml", _folder(resources=list(found))


def _overlays() -> dict[str, Manifest]:
    return {
        "default": {"resources": [*_kinds(*DEFAULT), _BASE]},
        "no-crds": {"resources": [*_kinds(OWN), _BASE]},  # other operators have brought the other kinds
        "podgroups": {"resources": [*_kinds(POD_GROUPS), "../default"]},
        "dev": {
            "resources": ["../default"],
            "replicas": [{"name": OPERATOR, "count": 1}],
            "images": [{"name": IMAGE.partition(":")[0], "newTag": "dev"}],
            "patches": [{"target": {"kind": "Deployment"}, "patch": as_yaml([list(_DEV)])}],  # type: ignore[list-item]
        },
    }


def _kinds(*groups: str) -> list[str]:
    return [f"../../crds/{group}" for group in groups]


def _folder(**parts: object) -> str:
    """The kustomization.yaml of a folder."""
    return as_yaml([{"apiVersion": "kustomize.config.k8s.io/v1beta1", "kind": "Kustomization", **parts}])
