"""The files for people, written from the tables: what `kubectl apply -k` and `helm install` take."""

from __future__ import annotations

from collections.abc import Iterator

from windlass.deploy.crds import DEFAULT, POD_GROUPS, crds
from windlass.jobs.kubernetes.manifest_file import as_yaml
from windlass.jobs.kubernetes.reading import Manifest

GENERATED = ("kustomize/crds",)
"""Folders in which every YAML file is generated."""
_WRITTEN = "# Written by tools/write_deployment.py; change src/windlass/deploy instead.\n"


def files() -> dict[str, str]:
    """Every generated file by its path under `deploy/`."""
    return {path: _WRITTEN + text for path, text in _definitions()}


def _definitions() -> Iterator[tuple[str, str]]:
    """A folder for each group of definitions, a file for each definition."""
    for group in (*DEFAULT, POD_GROUPS):
        found = {f"{each['metadata']['name']}.yaml": each for each in crds([group])}
        for name, definition in found.items():
            yield f"kustomize/crds/{group}/{name}", as_yaml([definition])
        yield f"kustomize/crds/{group}/kustomization.yaml", as_yaml([kustomization(resources=list(found))])


def kustomization(**parts: object) -> Manifest:
    """What kustomize reads of a folder."""
    return {"apiVersion": "kustomize.config.k8s.io/v1beta1", "kind": "Kustomization", **parts}
