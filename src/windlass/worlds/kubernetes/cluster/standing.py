"""Pods that exist already, made by others for our scheduler, in the core's terms (for `jobs.kubernetes.others`)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from windlass.core.job import Job, Match
from windlass.core.resources import add
from windlass.jobs.kubernetes.others.roles import own_terms
from windlass.jobs.kubernetes.pod_requests import core_name, is_gpu
from windlass.jobs.kubernetes.reading import Fault, Refused
from windlass.worlds.kubernetes.client.objects import Pod
from windlass.worlds.kubernetes.cluster.fitting import placed_by
from windlass.worlds.kubernetes.cluster.pods import takes
from windlass.worlds.kubernetes.cluster.volumes import Stock, Storage, both, claims_of_pod, storage


def asks(pod: Pod) -> dict[str, int]:
    """What it asks of its node, in the core's names."""
    asked: dict[str, int] = {}
    for name, count in takes(pod).items():
        asked = add(asked, {core_name(name): count})
    return asked


def terms(pod: Pod, stock: Stock) -> tuple[tuple[Match, ...], ...]:
    """Where its own node affinity and its volumes let it go. Raises Refused if they let it go nowhere yet."""
    found = storage_of(pod, stock)
    if found.trouble:
        raise Refused(Fault((pod.metadata.name, "spec", "volumes"), found.trouble))
    try:
        return both(own_terms(pod), found.terms)
    except ValueError as error:
        raise Refused(Fault((pod.metadata.name, "spec"), str(error))) from None


def storage_of(pod: Pod, stock: Stock) -> Storage:
    """What its volumes come to: `to_choose` are the claims to annotate with its node before it is bound."""
    return storage(claims_of_pod(pod), pod.metadata.namespace, stock)


def of_their_kind(job: Job, pods: Sequence[Pod]) -> Job:
    """The job, its roles on nodes with the GPUs that their pods ask for by name; pods in the order of members."""
    roles, at = [], 0
    for role in job.roles:
        kinds = sorted(name for name in takes(pods[at]) if is_gpu(name))
        roles.append(placed_by(role, next(iter(kinds), "")))
        at += role.replicas
    return replace(job, roles=tuple(roles))
