"""Parts that MPIJob v1 and v2beta1 share: the version of a manifest, the config map and its volume.

One definition serves both versions and converts nothing, so an object bears the version that it is requested in, not
the one that it was created with. Our definition has each version write its own name into `spec.dialect` when an object
is created; under another operator's definition, which has one version, that version is the answer.
"""

from __future__ import annotations

from collections.abc import Mapping

from windlass.jobs.kubernetes.manifest_reader import Manifest
from windlass.jobs.kubernetes.parsed_job import ParsedJob
from windlass.jobs.kubernetes.pods.pod_assembly import metadata

GROUP = "kubeflow.org"
V1, V2 = "v1", "v2beta1"
DIALECTS = (V1, V2)
VOLUME = "mpi-job-config"


def config_map(parsed: ParsedJob, files: Mapping[str, str]) -> Manifest:
    """`<job>-config` with files by name."""
    about = metadata(parsed, f"{parsed.name}-config", {"app": parsed.name})
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": about, "data": dict(files)}


def config_volume(parsed: ParsedJob, modes: Mapping[str, int]) -> Manifest:
    """The volume with the files that a pod needs, by name and mode."""
    items = [{"key": name, "path": name, "mode": mode} for name, mode in modes.items()]
    return {"name": VOLUME, "configMap": {"name": f"{parsed.name}-config", "items": items}}


def mount(volume: str, path: str) -> Manifest:
    """The mount of a volume in a container."""
    return {"name": volume, "mountPath": path}


def in_its_version(manifest: Manifest) -> Manifest:
    """The manifest of an MPIJob under the API version that it was made with; any other manifest as it is."""
    spec = manifest.get("spec")
    dialect = spec.get("dialect") if isinstance(spec, dict) else None
    if manifest.get("kind") != "MPIJob" or dialect not in DIALECTS:
        return manifest
    return {**manifest, "apiVersion": f"{GROUP}/{dialect}"}
