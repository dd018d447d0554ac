"""Jobs without what a cluster adds to them: pods that request GPUs tolerate the taint of their resource."""

from __future__ import annotations

from dataclasses import replace

from windlass.core.model.job import Job, Role
from windlass.jobs.kubernetes.pods.pod_requests import is_gpu


def without_gpu_tolerations(job: Job) -> Job:
    """The job without tolerations of resources that are GPUs."""

    def own(role: Role) -> Role:
        return replace(role, tolerations=tuple(each for each in role.tolerations if not is_gpu(each.key)))

    return replace(job, roles=tuple(map(own, job.roles)))
