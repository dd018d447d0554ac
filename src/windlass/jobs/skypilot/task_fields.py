"""Fields of a task of SkyPilot besides `resources`: those of a job, and what has no equivalent."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from types import MappingProxyType
from typing import Any, TypeAlias

from windlass.jobs.imports.file_entry import FileEntry
from windlass.jobs.imports.outcomes import Outcome, Setting
from windlass.jobs.syntax.names import JOB_NAME, VARIABLE, is_name, valid_name
from windlass.jobs.syntax.yaml_tree import plain

Reader: TypeAlias = Callable[[FileEntry], Iterator[Outcome]]
_NOT_SERVED = "Windlass serves no models: run becomes the command of a job, which ends when it ends"
_NO_MOUNT = "nothing is copied or mounted; it must exist on the nodes, or write volumes into pod"


def task_outcomes(fields: Mapping[str, FileEntry]) -> Iterator[Outcome]:
    """Outcomes of all fields but `resources`, `num_nodes`, `setup` and `run`. Raises InputError."""
    for name, entry in fields.items():
        if name in _REASONS and not entry.is_empty:
            yield entry.lost(_REASONS[name])
        elif name in _READERS:
            yield from _READERS[name](entry)


def _name(entry: FileEntry) -> Iterator[Outcome]:
    name = valid_name(entry.text())
    yield Setting("name", name)
    if not is_name(JOB_NAME, entry.text()):
        yield entry.lost(f"a name has small letters, digits and dashes; the job is called {name}")


def _workdir(entry: FileEntry) -> Iterator[Outcome]:
    if entry.is_mapping:
        yield entry.lost("no repository is cloned; write git clone into setup")
    elif re.search(r"\$|^[a-z+]+://", entry.text()):
        yield entry.lost("write the path of a folder into workdir")
    elif not entry.is_empty:
        yield Setting("workdir", entry.text())


def _envs(entry: FileEntry) -> Iterator[Outcome]:
    for name, value in entry.mapping().items():
        if not is_name(VARIABLE, name):
            raise value.error("cannot be the name of a variable")
        if value.is_empty:
            yield value.lost(f"it has no value; submit with --env {name}=VALUE, or export it on this machine")
        else:
            yield Setting("env", {name: value.text()})


def _secrets(entry: FileEntry) -> Iterator[Outcome]:
    """Values of secrets stay out of job files."""
    for name, value in entry.mapping().items():
        yield value.lost(
            f"the job file holds no secrets; export {name} on this machine before submit, "
            "or on Kubernetes write env with a secretKeyRef into pod"
        )


def _file_mounts(entry: FileEntry) -> Iterator[Outcome]:
    for mount in entry.mapping().values():
        yield mount.lost(_NO_MOUNT)


def _config(entry: FileEntry) -> Iterator[Outcome]:
    """`config.kubernetes.pod_config` is a part of a pod, as `pod` of a job; its container is the one of the command."""
    for name, value in entry.mapping().items():
        of_kubernetes = value.mapping() if name == "kubernetes" and value.is_mapping else {}
        for key, part in of_kubernetes.items():
            if key == "pod_config" and part.is_mapping:
                yield Setting("pod", _named_container(part))
            else:
                yield part.lost("it configures SkyPilot itself")
        if not of_kubernetes:
            yield value.lost("it configures SkyPilot itself")


def _named_container(entry: FileEntry) -> Mapping[str, Any]:
    """The part of a pod with the name of its first container as Windlass has it. Raises InputError."""
    pod: dict[str, Any] = plain(entry.node)
    spec = pod.get("spec") or {}
    containers = spec.get("containers") if isinstance(spec, dict) else None
    if not isinstance(spec, dict) or not isinstance(containers or [], list):
        raise entry.error("expects a part of a pod: a mapping spec with a list of containers")
    for container in (containers or [])[:1]:
        if not isinstance(container, dict):
            raise entry.error("expects a container as a mapping")
        container["name"] = "main"
    return pod


_READERS: Mapping[str, Reader] = MappingProxyType(
    {
        "name": _name,
        "workdir": _workdir,
        "envs": _envs,
        "secrets": _secrets,
        "file_mounts": _file_mounts,
        "volumes": _file_mounts,
        "storage_mounts": _file_mounts,
        "config": _config,
        "experimental": _config,
    }
)
_REASONS: Mapping[str, str] = MappingProxyType(
    {
        "service": _NOT_SERVED,
        "pool": "write array: one job for each index",
        "event_callback": "nothing is called; windlass wait ends with the job",
        "inputs": "it has no effect in SkyPilot either",
        "outputs": "it has no effect in SkyPilot either",
        "volume_mounts": _NO_MOUNT,
        "managed_secrets": "write env with a secretKeyRef into pod",
        "api_server_access": "ranks reach no server of SkyPilot; windlass.Client submits jobs",
        "file_mounts_mapping": "it is internal to SkyPilot",
        "_metadata": "it is internal to SkyPilot",
    }
)
"""Field → what becomes of it."""
KNOWN = frozenset({"resources", "num_nodes", "setup", "run", *_READERS, *_REASONS})
"""Every field of a task."""
HEADER = frozenset({"name", "execution", "primary_tasks", "termination_delay"})
"""Fields of the first document of a pipeline or a group of jobs."""
