"""The namespace of a lab on the cluster of the workshop, and the kubeconfig that selects it."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import yaml

from windlass.labs.cluster_requests import START_CLUSTER, create_object, delete_object, get_object
from windlass.labs.errors import LabStateError
from windlass.labs.lab_folders import LabFolders, namespace_of

_TIMEOUT_S = 90.0
_PAUSE_S = 0.2


def create_namespace(folders: LabFolders, lab_id: str) -> bool:
    """Creates the namespace of a lab, and a kubeconfig whose default it is. Raises LabStateError.

    Returns whether the namespace is new: a cluster that was started again has lost it.
    """
    name = namespace_of(lab_id)
    labels = {"windlass.dev/lab": lab_id}
    body = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "labels": labels}}
    write_kubeconfig(folders.cluster_kubeconfig, folders.kubeconfig(lab_id), name)
    is_new = create_object(folders.kubeconfig(lab_id), "/api/v1/namespaces", body)
    account = f"/api/v1/namespaces/{name}/serviceaccounts/default"  # no pod is created before it
    _wait(lambda: get_object(folders.kubeconfig(lab_id), account) is not None, f"the namespace {name} is not ready")
    return is_new


def delete_namespace(folders: LabFolders, lab_id: str) -> None:
    """Deletes the namespace of a lab, and waits until everything in it is gone. Raises LabStateError."""
    path = f"/api/v1/namespaces/{namespace_of(lab_id)}"
    delete_object(folders.cluster_kubeconfig, path)
    _wait(
        lambda: get_object(folders.cluster_kubeconfig, path) is None, f"the namespace {namespace_of(lab_id)} still ends"
    )


def _wait(is_done: Callable[[], bool], trouble: str) -> None:
    """Polls the API server. Raises LabStateError after a time."""
    until = time.monotonic() + _TIMEOUT_S
    while not is_done():
        if time.monotonic() > until:
            raise LabStateError(f"{trouble} after {_TIMEOUT_S:g} s\nwindlass lab cluster status")
        time.sleep(_PAUSE_S)


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
