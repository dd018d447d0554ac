"""Resolves a job of our kinds in its cluster for the controller."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from windlass.backends.kubernetes.client.objects import Pod
from windlass.backends.kubernetes.cluster.job_resolution import NamespaceLookups, ResolvedJob, resolve_job
from windlass.core.model.job import Job, Role
from windlass.core.model.resources import is_exclusive
from windlass.jobs.kubernetes.parsed_job import ParsedJob

_MPIJOB_V1 = ("kubeflow.org/v1", "MPIJob")
_NO_RIGHTS = (
    "the operator has no rights for MPIJobs of version v1 (exec into pods, roles): "
    "windlass operator install --mpijob-v1 grants them; an MPIJob v2beta1 needs none"
)


def fit_job(
    parsed: ParsedJob, around: NamespaceLookups, pods: Iterable[Pod] = (), *, runs_mpijobs_v1: bool = True
) -> ResolvedJob:
    """Returns the job with resolved names.

    `pods`: those that it has already. `runs_mpijobs_v1`: whether the operator has the rights that they need.
    """
    found = resolve_job(parsed, around, pods)
    if parsed.scheduler.trouble:
        found = replace(found, trouble=parsed.scheduler.trouble)
    elif parsed.scheduler.is_foreign:
        found = replace(found, job=_placed_by(parsed.scheduler.name, found.job), to_choose=())
    if around.unmanaged:
        found = replace(found, trouble=around.unmanaged, is_early=around.namespace_labels is None)
    elif not runs_mpijobs_v1 and (parsed.api_version, parsed.kind) == _MPIJOB_V1:
        found = replace(found, trouble=_NO_RIGHTS)
    # a denied job runs with what it may have
    hold = "" if found.trouble == found.denial else found.trouble
    return replace(found, job=replace(found.job, hold=hold or parsed.job.hold))


def _placed_by(scheduler: str, job: Job) -> Job:
    """Returns the job for admission alone: another scheduler chooses its nodes, and takes the time that it needs."""
    roles = tuple(_without_constraints(role) for role in job.roles)
    return replace(job, roles=roles, placed_by=scheduler, start_timeout=None, topology=None, gpu_types=(), avoid=())


def _without_constraints(role: Role) -> Role:
    """Returns the role without its needs of nodes. Its size is fixed: nothing tells how much room is left for it."""
    amounts = {name: amount for name, amount in role.resources.items() if not is_exclusive(name)}
    return replace(
        role,
        resources=amounts,
        node_selector={},
        tolerations=(),
        affinity=(),
        whole_node=False,
        min_replicas=None,
        max_replicas=None,
        scales_in_place=False,
    )
