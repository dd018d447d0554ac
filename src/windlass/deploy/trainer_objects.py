"""Objects beside the trainer's kinds that `operator install --trainer` brings: its standard runtimes and its version.

Source: kubeflow/trainer v2.3, manifests/base/runtimes, manifests/base/rbac, manifests/overlays/manager. A TrainerClient
of the Kubeflow SDK looks for the version, and warns without it.
"""

from __future__ import annotations

from windlass.deploy.labels import labels_of
from windlass.jobs.kubernetes.manifest_reader import Manifest
from windlass.jobs.kubernetes.train_runtimes import standard_runtimes

NAMESPACE = "kubeflow-system"
"""Namespace in which the SDK looks, unless $KUBEFLOW_SYSTEM_NAMESPACE names another."""
TRAINER_VERSION = "v2.3.0"
"""Release of the trainer whose kinds, runtimes and conditions these are."""
_PUBLIC = "kubeflow-trainer-public"
_RBAC = "rbac.authorization.k8s.io"


def trainer_objects() -> list[Manifest]:
    """The public ConfigMap with its namespace and the right of all users to read it, and the runtimes."""
    return [
        {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE, "labels": labels_of("trainer")}},
        *public_objects(),
        *labelled_runtimes(),
    ]


def labelled_runtimes() -> list[Manifest]:
    """The standard runtimes, with the labels of an installation beside their own."""
    return [
        {**each, "metadata": {**each["metadata"], "labels": {**each["metadata"]["labels"], **labels_of("trainer")}}}
        for each in standard_runtimes()
    ]


def public_objects() -> list[Manifest]:
    """The ConfigMap with the trainer's version, and the right to read it."""
    about = {"name": _PUBLIC, "namespace": NAMESPACE, "labels": labels_of("trainer")}
    verbs = ["get", "list", "watch"]
    read = {"apiGroups": [""], "resources": ["configmaps"], "resourceNames": [_PUBLIC], "verbs": verbs}
    return [
        {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": about,
            "data": {"kubeflow_trainer_version": TRAINER_VERSION},
        },
        {"apiVersion": f"{_RBAC}/v1", "kind": "Role", "metadata": about, "rules": [read]},
        {
            "apiVersion": f"{_RBAC}/v1",
            "kind": "RoleBinding",
            "metadata": about,
            "roleRef": {"apiGroup": _RBAC, "kind": "Role", "name": _PUBLIC},
            "subjects": [{"apiGroup": _RBAC, "kind": "Group", "name": "system:authenticated"}],
        },
    ]
