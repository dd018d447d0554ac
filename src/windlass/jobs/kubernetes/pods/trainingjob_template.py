"""Pod template of a role of a TrainingJob: everything except the parts of a single pod."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping

from windlass.core.model.job import Job, Launcher, Match, Role
from windlass.core.model.resources import CPU, GPU, MEMORY, format_quantity, is_device
from windlass.jobs.kubernetes.labels import KUEUE_QUEUE
from windlass.jobs.kubernetes.manifest_reader import Manifest
from windlass.jobs.kubernetes.pods.pod_placement import NODE_NAME
from windlass.jobs.kubernetes.pods.pod_requests import device_name
from windlass.jobs.kubernetes.pods.strategic_merge import merge
from windlass.jobs.syntax.names import KUBERNETES_LABEL, KUBERNETES_LABEL_VALUE, is_name
from windlass.launch.agent import agent_words, entry_of

CONTAINER = "main"
"""The container that runs the command."""


def template(job: Job, role: Role) -> Manifest:
    """The pod template of a role, with the role's `pod` merged over it."""
    container: Manifest = {"name": CONTAINER, "command": _command(job, role), "resources": _resources(role)}
    if role.image:
        container["image"] = role.image
    if job.workdir:
        container["workingDir"] = job.workdir
    spec = {
        "terminationGracePeriodSeconds": -(-job.grace // 1000),
        **_placing(job, role),
        "containers": [container],
    }
    made = {"metadata": _about(job.labels), "spec": spec}
    return merge(made, json.loads(role.pod)) if role.pod else made


def _command(job: Job, role: Role) -> list[str]:
    """The command, or the agent of the image in front of it, run by the command's own Python; see also `agents`."""
    if job.launcher is not Launcher.AGENT or job.agent:
        return list(role.command)
    entry = entry_of(role.command)
    return [entry.python if entry else "python3", "-m", "windlass.agent", *agent_words(role.command)]


def _about(words: Mapping[str, str]) -> Manifest:
    """The job's labels as labels where Kubernetes takes them, else as annotations.

    Pods do not have the label of Kueue's queue: Kueue would admit each of them by itself.
    """
    named = {name: value for name, value in words.items() if is_name(KUBERNETES_LABEL, name) and name != KUEUE_QUEUE}
    labels = {name: value for name, value in named.items() if is_name(KUBERNETES_LABEL_VALUE, value)}
    annotations = {name: value for name, value in named.items() if name not in labels}
    return {**({"labels": labels} if labels else {}), **({"annotations": annotations} if annotations else {})}


def _resources(role: Role) -> Manifest:
    """Resources of the container: CPU and memory as requests, devices, which cannot be overcommitted, as limits."""
    requests = {name: format_quantity(name, role.resources[name]) for name in (CPU, MEMORY) if name in role.resources}
    devices = {device_name(name): str(count) for name, count in role.resources.items() if is_device(name)}
    return {**({"requests": requests} if requests else {}), **({"limits": devices} if devices else {})}


def _placing(job: Job, role: Role) -> Manifest:
    placing: Manifest = {}
    if role.node_selector:
        placing["nodeSelector"] = dict(role.node_selector)
    if role.tolerations:
        parts = ("key", "operator", "value", "effect")
        written = ({part: getattr(each, part) for part in parts} for each in role.tolerations)
        placing["tolerations"] = [{part: value for part, value in each.items() if value} for each in written]
    terms = _terms(job, role)
    if terms:
        required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}
        placing["affinity"] = {"nodeAffinity": required}
    return placing


def _terms(job: Job, role: Role) -> list[Manifest]:
    """The role's terms, each without the nodes that the whole job avoids.

    GPU models are not in it: nodes have many labels for them, and a kubelet rejects a pod whose affinity its node does
    not match exactly.
    """
    avoided = [Match(NODE_NAME, "NotIn", (node,)) for node in job.avoid]  # the API takes one name a condition
    fields = {"matchFields": _conditions(avoided)} if avoided else {}
    terms = role.affinity or (((),) if avoided else ())
    return [{**({"matchExpressions": _conditions(term)} if term else {}), **fields} for term in terms]


def _conditions(term: Iterable[Match]) -> list[Manifest]:
    return [
        {"key": match.key, "operator": match.operator, **({"values": list(match.values)} if match.values else {})}
        for match in term
    ]


def gpus(role: Role) -> int | None:
    """Whole GPUs of a replica; None: it has a slice, whose identifier only the device plugin knows."""
    return None if any(name.startswith("mig-") for name in role.resources) else role.resources.get(GPU, 0)
