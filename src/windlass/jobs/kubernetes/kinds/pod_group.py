"""The PodGroup of a job of our kinds in the coscheduling dialect, for tools that read PodGroups, such as autoscalers.

Our own scheduler does not need it: it reads the job.
Source: sigs.k8s.io/scheduler-plugins v0.33, apis/scheduling/v1alpha1.
"""

from __future__ import annotations

from dataclasses import replace

from windlass.core.model.job import Job, total_request
from windlass.core.model.resources import format_quantity, is_device
from windlass.core.model.steps import jobs_of_steps
from windlass.jobs.kubernetes.external.membership import Dialect, GangKey, object_of
from windlass.jobs.kubernetes.manifest_reader import Manifest
from windlass.jobs.kubernetes.parsed_job import ParsedJob
from windlass.jobs.kubernetes.pods.pod_assembly import metadata
from windlass.jobs.kubernetes.pods.pod_requests import device_name


def pod_group(parsed: ParsedJob) -> list[Manifest]:
    """The PodGroup of the job's name, if the installation enables it; pods have its label. None for a suspended job."""
    if not parsed.settings.pod_groups or parsed.run_policy.suspend:
        return []
    kind = object_of(GangKey(parsed.namespace, parsed.name, Dialect.COSCHEDULING))
    least = _least(parsed.job)
    needs = {
        device_name(name) if is_device(name) else name: format_quantity(name, amount)
        for name, amount in total_request(least).items()
    }
    return [
        {
            "apiVersion": kind.api_version if kind else "",
            "kind": "PodGroup",
            "metadata": metadata(parsed, parsed.name, {}),
            "spec": {"minMember": least.members, **({"minResources": needs} if needs else {})},
        }
    ]


def _least(job: Job) -> Job:
    """The job in the smallest size that it starts with; of a job with steps, the last one."""
    *_, job = jobs_of_steps(job)
    return replace(job, roles=tuple(replace(role, replicas=role.min_replicas or role.replicas) for role in job.roles))
