"""A job as it was read, fitted to its cluster: what its pods need besides, and what names in it stand for here.

The fitted job is for the core alone: pods are made of the manifest, which knows nothing of this.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from windlass.core.job import DEFAULT_QUEUE, Job, Role
from windlass.core.resources import GPU, PODS, Resources, add
from windlass.jobs.kubernetes.own_labels import QUEUE
from windlass.jobs.kubernetes.parsed import Parsed
from windlass.jobs.kubernetes.pod_requests import HOST_PORT, core_name, is_gpu
from windlass.worlds.kubernetes.client.objects import Pod, PriorityClass, Words
from windlass.worlds.kubernetes.cluster.amounts import GPU_KIND
from windlass.worlds.kubernetes.cluster.apart import APART, separated
from windlass.worlds.kubernetes.cluster.pods import takes
from windlass.worlds.kubernetes.cluster.volumes import Stock, Storage, both, claims_of, storage

_SINGLES = (HOST_PORT, APART)


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What a job's names are looked up in."""

    namespace_labels: Words = field(default_factory=dict)
    priorities: Mapping[str, PriorityClass] = field(default_factory=dict)
    stock: Stock = field(default_factory=Stock)


@dataclass(frozen=True, slots=True)
class Fitted:
    """The job for the core, and what the world must know besides."""

    job: Job
    to_choose: tuple[str, ...] = ()
    """Claims of its namespace to annotate with the node of the first pod that mounts them, before that is bound."""
    trouble: str = ""
    """Why it cannot be scheduled before something else in the cluster changes; "" if it can."""
    warnings: tuple[str, ...] = ()
    """What was written and has no effect, or may not come as it is meant: those of the manifest, and more."""


def fitted(parsed: Parsed, around: Surroundings) -> Fitted:
    """What the core is told of a job of one of our kinds."""
    specs = {each.role: each.template.get("spec") or {} for each in parsed.replicas}
    stores = {role.name: _storage(specs[role.name], parsed.namespace, around.stock) for role in parsed.job.roles}
    apart = separated(parsed)
    priority, trouble = priority_of(parsed.priority_class, around.priorities)
    roles = []
    for role in parsed.job.roles:
        own, wrong = _role(role, gpu_of(specs[role.name]), stores[role.name], apart.resources.get(role.name, ""))
        roles.append(own)
        trouble = trouble or wrong
    job = replace(
        parsed.job,
        roles=tuple(roles),
        queue=queue_of(parsed.policy.queue, around.namespace_labels),
        priority=parsed.job.priority if priority is None else priority,
    )
    chosen = tuple(dict.fromkeys(name for store in stores.values() for name in store.to_choose))
    return Fitted(job, chosen, trouble, tuple(_warnings(parsed, around, specs, apart.heeded)))


def singles(job: Job) -> frozenset[str]:
    """The resources in it of which each node has one (`View.singles`)."""
    return frozenset(name for role in job.roles for name in role.resources if name.startswith(_SINGLES))


def asks(pod: Pod) -> dict[str, int]:
    """What a pod that exists already asks for, in the core's names."""
    asked: dict[str, int] = {}
    for name, count in takes(pod).items():
        asked = add(asked, {core_name(name): count})
    return asked


def placed_by(role: Role, kind: str) -> Role:
    """The role, on nodes whose GPUs are of the kind that it asks for by name (`gpu_of`)."""
    if not kind or not role.resources.get(GPU):
        return role
    return replace(role, node_selector={**role.node_selector, GPU_KIND: kind})


def gpu_of(spec: Mapping[str, Any]) -> str:
    """Which GPUs a pod of this spec asks for, by the name of their resource; "" if none, the first of several."""
    containers = [*(spec.get("containers") or ()), *(spec.get("initContainers") or ())]
    names = {name for each in containers for name in _named(each) if is_gpu(name)}
    return min(names, default="")


def queue_of(written: str, namespace_labels: Words) -> str:
    """The queue a job names, or that of its namespace, or the default one."""
    return written or namespace_labels.get(QUEUE) or DEFAULT_QUEUE


def priority_of(name: str, known: Mapping[str, PriorityClass]) -> tuple[int | None, str]:
    """What a priority class stands for, and what is wrong. Without a name: the default one, None if there is none."""
    if name:
        found = known.get(name)
        return (found.value, "") if found else (None, f"there is no PriorityClass {name}; create it, or name another")
    return next((each.value for each in known.values() if each.global_default), None), ""


def _role(role: Role, kind: str, store: Storage, apart: str) -> tuple[Role, str]:
    """The role as its pods need it, and why none of them can be placed now."""
    needs: Resources = {**role.resources, PODS: 1, **({apart: 1} if apart else {})}
    try:
        affinity, wrong = both(role.affinity, store.terms), ""
    except ValueError as error:
        affinity, wrong = role.affinity, str(error)
    return placed_by(replace(role, resources=needs, affinity=affinity), kind), store.trouble or wrong


def _storage(spec: Mapping[str, Any], namespace: str, stock: Stock) -> Storage:
    return storage(claims_of(spec), namespace, stock)


def _warnings(
    parsed: Parsed, around: Surroundings, specs: Mapping[str, Mapping[str, Any]], heeded: Collection[str]
) -> Iterator[str]:
    """What may not come as it is meant."""
    done = tuple(f"{each.type}: podAntiAffinity " for each in parsed.replicas if each.role in heeded)
    yield from (warning for warning in parsed.warnings if not warning.startswith(done))
    known = around.priorities.get(parsed.priority_class)
    if known and known.preemption_policy == "Never":
        yield f"priorityClassName {parsed.priority_class}: preemptionPolicy Never is not heeded by the scheduler"
    for role in parsed.job.roles:
        for name in claims_of(specs[role.name]) if role.replicas > 1 else ():
            claim = around.stock.claims.get((parsed.namespace, name))
            if claim and _on_one_node(claim.spec.access_modes):
                yield f"{role.name}: {role.replicas} pods mount {name}, and one node at a time may (ReadWriteOnce)"


def _on_one_node(modes: Sequence[str]) -> bool:
    return bool(modes) and all(mode in ("ReadWriteOnce", "ReadWriteOncePod") for mode in modes)


def _named(container: Mapping[str, Any]) -> list[str]:
    resources = container.get("resources") or {}
    return [*(resources.get("limits") or ()), *(resources.get("requests") or ())]
