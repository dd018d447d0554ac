"""Resolves an external gang in its cluster: its volumes, the kind of its GPUs, its queue and its priority."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from windlass.backends.kubernetes.client.objects import Pod
from windlass.backends.kubernetes.cluster.admission_guard import namespace_user
from windlass.backends.kubernetes.cluster.job_resolution import NamespaceLookups, priority_of, with_level_name
from windlass.backends.kubernetes.cluster.queue_access import is_reserved_class, is_reserved_value
from windlass.backends.kubernetes.cluster.volumes import VolumeConstraints, intersect_terms, volume_constraints
from windlass.core.model.job import DEFAULT_QUEUE, Job, Match
from windlass.core.model.resources import GPU_KIND
from windlass.jobs.kubernetes.external.gang_assembly import AssembledGang
from windlass.jobs.kubernetes.external.roles import Terms, own_terms
from windlass.jobs.kubernetes.labels import QUEUE
from windlass.jobs.kubernetes.manifest_reader import Fault, ManifestError
from windlass.jobs.kubernetes.pods.pod_requests import is_gpu


def fitted_job(gang: AssembledGang[Pod], around: NamespaceLookups) -> Job:
    """Returns the gang's job for the controller. No failure is retried: the owner of the pods creates the next ones.

    It is in another queue than it names if it may not be in that one (`queue_denial`).
    """
    job, namespace = with_level_name(gang.job, around.levels), gang.pods[0].metadata.namespace
    queue, _ = around.queues_of(namespace).allowed_queue("" if _labels_denial(gang, around) else gang.queue)
    return replace(
        job,
        queue=queue,
        priority=_priority(gang, around, queue),
        user=namespace_user(namespace),
        grace=min(job.grace, around.max_grace),
        restart=replace(job.restart, user_limit=0, infrastructure_limit=0),
    )


def _priority(gang: AssembledGang[Pod], around: NamespaceLookups, queue: str) -> int:
    """Returns the priority of the gang's pods, or that of its group's class.

    The API server checks a pod's class against quotas, and no group's: beyond what its pods have, the class of a group
    is bounded by the queue, as a number is. So is the value of a class of Kubernetes' own pods.
    """
    of_pods, namespace = gang.job.priority, gang.pods[0].metadata.namespace
    if is_reserved_value(of_pods, namespace):
        of_pods, _ = around.queues_of(namespace).allowed_priority(queue, of_pods)
    counts = gang.priority_class and not is_reserved_class(gang.priority_class, namespace)
    of_class = priority_of(gang.priority_class, around.priorities)[0] if counts else None
    if of_class is None:
        return of_pods
    allowed, _ = around.queues_of(namespace).allowed_priority(queue, of_class)
    return min(of_class, max(of_pods, allowed))


def queue_denial(gang: AssembledGang[Pod], around: NamespaceLookups) -> str:
    """Returns why the gang may not be in the queue that it names; "" if it may."""
    denial = around.queues_of(gang.pods[0].metadata.namespace).allowed_queue(gang.queue)[1]
    return denial or _labels_denial(gang, around)


def _labels_denial(gang: AssembledGang[Pod], around: NamespaceLookups) -> str:
    """Returns why a queue does not count that needs the verb `use`; "" if it does.

    Admission asks for the verb pod by pod. It cannot refuse a PodGroup, which may be that of another scheduler.
    """
    own = around.queues_of(gang.pods[0].metadata.namespace).own
    if gang.is_queue_of_pods or gang.queue in ("", DEFAULT_QUEUE, own):
        return ""
    return f"not every pod of the gang names the queue {gang.queue} by the label {QUEUE}: give it to all of them"


def node_terms_in(around: NamespaceLookups) -> Callable[[Pod], Terms]:
    """Returns the node terms of a pod, for `assemble_gangs`: from its affinity, volumes and kind of GPUs."""

    def terms(pod: Pod) -> Terms:
        if around.unmanaged:
            raise ManifestError(Fault((pod.metadata.name,), around.unmanaged))
        store = volumes_of(pod, around)
        if store.trouble:
            raise ManifestError(Fault((pod.metadata.name, "spec", "volumes"), store.trouble))
        try:
            return intersect_terms(own_terms(pod), store.terms, _make_of_gpus(pod))
        except ValueError as error:
            raise ManifestError(Fault((pod.metadata.name, "spec", "affinity"), str(error))) from None

    return terms


def volumes_of(pod: Pod, around: NamespaceLookups) -> VolumeConstraints:
    """Resolves the volume claims of a pod."""
    names = _claims(pod)
    return volume_constraints(names, pod.metadata.namespace, around.stock) if names else VolumeConstraints()


def claims_to_choose(around: Callable[[str], NamespaceLookups], pod: Pod) -> Sequence[str]:
    """Returns the claims of a pod whose volumes are provisioned near its node."""
    return volumes_of(pod, around(pod.metadata.namespace)).to_choose if pod.spec.volumes else ()


def _claims(pod: Pod) -> Sequence[str]:
    named = (volume.persistent_volume_claim for volume in pod.spec.volumes)
    own = [f"{pod.metadata.name}-{volume.name}" for volume in pod.spec.volumes if volume.ephemeral is not None]
    return [*(claim.claim_name for claim in named if claim is not None), *own]


def _make_of_gpus(pod: Pod) -> Terms:
    containers = (*pod.spec.containers, *pod.spec.init_containers)
    asked = (name for each in containers for name in (*each.resources.limits, *each.resources.requests))
    make = min((name for name in asked if is_gpu(name)), default="")
    return ((Match(GPU_KIND, "In", (make,)),),) if make else ()
