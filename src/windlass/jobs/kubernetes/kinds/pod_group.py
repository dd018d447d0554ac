"""The PodGroup of a job of our kinds: for the other scheduler that places its pods, or for tools such as autoscalers.

Our own scheduler does not need it: it reads the job. Fields of the run policy are passed on as the training operator
does. Sources: sigs.k8s.io/scheduler-plugins v0.33, apis/scheduling/v1alpha1; volcano.sh/apis v1.13, scheduling/v1beta1;
k8s.io/api v0.36, scheduling/v1alpha2; kubeflow/training-operator v1.9, pkg/controller.v1/common/job.go.
"""

from __future__ import annotations

from dataclasses import replace

from windlass.core.model.job import Job, total_request
from windlass.core.model.resources import format_quantity, is_device
from windlass.core.model.steps import jobs_of_steps
from windlass.jobs.kubernetes.gang_dialects import OBJECT_KINDS, Dialect
from windlass.jobs.kubernetes.labels import VOLCANO_QUEUE
from windlass.jobs.kubernetes.manifest_reader import Manifest, ManifestField
from windlass.jobs.kubernetes.parsed_job import ParsedJob
from windlass.jobs.kubernetes.pods.pod_assembly import group_dialect, metadata
from windlass.jobs.kubernetes.pods.pod_requests import device_name

_VOLCANO_DEFAULT_QUEUE = "default"


def pod_group(parsed: ParsedJob) -> list[Manifest]:
    """The PodGroup of the job's name, if it has one; pods name it. None for a suspended job."""
    dialect = group_dialect(parsed)
    if dialect is None or parsed.run_policy.suspend:
        return []
    kind, about = OBJECT_KINDS[dialect], metadata(parsed, parsed.name, {})
    return [{"apiVersion": kind.api_version, "kind": kind.kind, "metadata": about, "spec": _spec(parsed, dialect)}]


def _spec(parsed: ParsedJob, dialect: Dialect) -> Manifest:
    policy, least = parsed.spec["runPolicy"]["schedulingPolicy"], least_size(parsed.job)
    if dialect is Dialect.NATIVE:
        return {"schedulingPolicy": {"gang": {"minCount": least.members}}}
    written = policy["minResources"].mapping()
    size = {"minMember": least.members, **({"minResources": written} if written else pod_group_needs(least))}
    if dialect is Dialect.VOLCANO:
        of_class = {"priorityClassName": parsed.priority_class} if parsed.priority_class else {}
        return {**size, "queue": _volcano_queue(parsed, policy), **of_class}
    seconds = policy["scheduleTimeoutSeconds"].integer() if parsed.scheduler.is_foreign else None
    return {**size, **({} if seconds is None else {"scheduleTimeoutSeconds": seconds})}


def pod_group_needs(job: Job) -> Manifest:
    """The field minResources of a PodGroup of this size; none without requests."""
    needs = {
        device_name(name) if is_device(name) else name: format_quantity(name, amount)
        for name, amount in total_request(job).items()
    }
    return {"minResources": needs} if needs else {}


def _volcano_queue(parsed: ParsedJob, policy: ManifestField) -> str:
    """Volcano's queue. One that only our label names is a queue of Windlass."""
    annotations = ManifestField(parsed.manifest)["metadata"]["annotations"]
    return policy["queue"].text() or annotations[VOLCANO_QUEUE].text() or _VOLCANO_DEFAULT_QUEUE


def least_size(job: Job) -> Job:
    """The job in the smallest size that it starts with; of a job with steps, the last one."""
    *_, job = jobs_of_steps(job)
    return replace(job, roles=tuple(replace(role, replicas=role.min_replicas or role.replicas) for role in job.roles))
