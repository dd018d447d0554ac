"""The namespace of a lab on the cluster of the workshop, and the kubeconfig that selects it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml

from windlass.labs.cluster_requests import START_CLUSTER, create_object, delete_object
from windlass.labs.errors import LabStateError
from windlass.labs.lab_folders import LabFolders, namespace_of


def create_namespace(folders: LabFolders, lab_id: str) -> None:
    """Creates the namespace of a lab, and a kubeconfig whose default it is. Raises LabStateError."""
    name = namespace_of(lab_id)
    labels = {"windlass.dev/lab": lab_id}
    body = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "labels": labels}}
    write_kubeconfig(folders.cluster_kubeconfig, folders.kubeconfig(lab_id), name)
    create_object(folders.kubeconfig(lab_id), "/api/v1/namespaces", body)


def delete_namespace(folders: LabFolders, lab_id: str) -> None:
    """Deletes the namespace of a lab with everything in it. Raises LabStateError if the cluster does not answer."""
    delete_object(folders.cluster_kubeconfig, f"/api/v1/namespaces/{namespace_of(lab_id)}")


def write_kubeconfig(source: Path, target: Path, namespace: str) -> None:
    """Writes a copy of a kubeconfig whose contexts have this namespace. Raises LabStateError."""
    try:
        content: Any = yaml.safe_load(source.read_text(encoding="utf-8"))
        for each in content["contexts"]:
            each["context"]["namespace"] = namespace
    except FileNotFoundError:
        raise LabStateError(f"this lab needs the cluster of the workshop\n{START_CLUSTER}") from None
    except (OSError, yaml.YAMLError, TypeError, KeyError) as error:
        raise LabStateError(f"{source} is no kubeconfig ({error})\nwindlass lab cluster down, then up") from None
    target.touch(mode=0o600)
    target.write_text(yaml.safe_dump(content), encoding="utf-8")
