"""One pod template for all replicas of a role: what differs between them is computed from the index of the pod."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from windlass.jobs.kubernetes.manifest_reader import Manifest
from windlass.jobs.kubernetes.pods.trainingjob_template import CONTAINER

_NUMBER = re.compile(r"[0-9]+")


class IndexSource(NamedTuple):
    """Places in which a pod finds its index among those of its role."""

    variable: str
    """Environment variable of every container."""
    field: str = ""
    """Field of the pod, as fieldRef names it; "": none."""


JOB_INDEX = IndexSource("JOB_COMPLETION_INDEX", "metadata.annotations['batch.kubernetes.io/job-completion-index']")
"""Of an indexed Job. Source: k8s.io/api v0.36, batch/v1."""
VOLCANO_INDEX = IndexSource("VC_TASK_INDEX")
"""Of a task of a Volcano Job with the plugin env, which appends it to the variables. Source: Volcano's guide to it."""


def indexed_spec(specs: Sequence[Manifest], index: IndexSource) -> Manifest:
    """The spec of every pod of a role, from the specs of its replicas in their order.

    Numbers in variables of the main container may differ by the index; nothing else does, but the hostname.
    """
    spec = {name: value for name, value in specs[0].items() if name != "hostname"}
    offsets = _offsets([_variables(each) for each in specs[:2]])
    containers = [_indexed(each, offsets, index) if each["name"] == CONTAINER else each for each in spec["containers"]]
    return {**spec, "containers": containers}


def _offsets(variables: Sequence[Mapping[str, Any]]) -> dict[str, int]:
    """Variables that count the replicas, with the number of the first one."""
    if len(variables) < 2:
        return {}
    first, second = variables
    return {
        name: int(value)
        for name, value in first.items()
        if isinstance(value, str) and _NUMBER.fullmatch(value) and second[name] == str(int(value) + 1)
    }


def _variables(spec: Manifest) -> dict[str, Any]:
    container = next(each for each in spec["containers"] if each["name"] == CONTAINER)
    return {each["name"]: each.get("value") for each in container["env"]}


def _indexed(container: Manifest, offsets: Mapping[str, int], index: IndexSource) -> Manifest:
    by_field = {name for name, offset in offsets.items() if index.field and not offset}
    reference = {"fieldRef": {"fieldPath": index.field}}
    env = [
        {"name": each["name"], "valueFrom": reference} if each["name"] in by_field else each
        for each in container["env"]
        if each["name"] not in offsets or each["name"] in by_field
    ]
    by_shell = {name: offset for name, offset in offsets.items() if name not in by_field}
    return {**container, "env": env, "command": _command(container, by_shell, index)}


def _command(container: Manifest, offsets: Mapping[str, int], index: IndexSource) -> list[str]:
    """The command, started by a shell that computes the variables first; Kubernetes itself cannot add."""
    if not offsets:
        return list(container["command"])
    exports = " ".join(
        f"{name}=$(({f'{offset}+' if offset else ''}{index.variable}))" for name, offset in offsets.items()
    )
    return ["/bin/sh", "-c", f'export {exports}; exec "$0" "$@"', *container["command"]]
