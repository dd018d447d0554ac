"""The config map of an MPIJob, and the volume through which its pods read it."""

from __future__ import annotations

from collections.abc import Mapping

from windlass.jobs.kubernetes.manifests.reader import Manifest
from windlass.jobs.kubernetes.parsed import Parsed
from windlass.jobs.kubernetes.pods.pod_assembly import metadata

VOLUME = "mpi-job-config"


def config_map(parsed: Parsed, files: Mapping[str, str]) -> Manifest:
    """`<job>-config` with files by name."""
    about = metadata(parsed, f"{parsed.name}-config", {"app": parsed.name})
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": about, "data": dict(files)}


def config_volume(parsed: Parsed, modes: Mapping[str, int]) -> Manifest:
    """The volume with those of the files that a pod needs, by name and mode."""
    items = [{"key": name, "path": name, "mode": mode} for name, mode in modes.items()]
    return {"name": VOLUME, "configMap": {"name": f"{parsed.name}-config", "items": items}}


def mount(volume: str, path: str) -> Manifest:
    """A volume's place in a container."""
    return {"name": volume, "mountPath": path}
