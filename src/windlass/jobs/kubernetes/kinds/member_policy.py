"""Success and restart of a kind's pods as policies of the core's job.

Source: kubeflow/training-operator v1.9, pkg/controller.v1/common/{job,pod}.go, UpdateJobStatus of each kind.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from windlass.core.model.job import Job, MemberRestart, RestartPolicy, RestartScope, Role, SuccessPolicy, SuccessRule
from windlass.jobs.kubernetes.manifest_reader import ManifestField
from windlass.jobs.kubernetes.parsed_job import WORKER, ParsedJob, Replicas
from windlass.jobs.kubernetes.pods.agent_pods import requested_agent

_LAUNCHERS = ("Launcher", "launcher")
"""Replica types of MPIJobs, and of TrainJobs with MPI: the other pods run sshd, or sleep."""
_SERVERS = {"TFJob": ("PS", "Evaluator")}
_RESTARTS = {"Never": MemberRestart.NEVER, "ExitCode": MemberRestart.ON_EXIT_CODE}


@dataclass(frozen=True, slots=True)
class MemberPolicy:
    """A kind's rules for single pods, by replica type."""

    leaders: tuple[str, ...] = ()
    """Types whose success is the job's, where the job has one of them; else the workers decide."""
    workers: SuccessRule = SuccessRule.ALL
    """Workers that must succeed, without a leader."""
    never_restarted: tuple[str, ...] = ()
    optional: tuple[str, ...] = ()
    """Types whose failed pods the job goes on without."""
    restarted_if_deleted: tuple[str, ...] = ()
    """Types whose pods are restarted only when they are deleted from outside."""
    replaces_deleted: bool = False
    """A pod that is deleted from outside is created again even if its failure would end the job."""
    is_limited: bool = True
    """`backoffLimit` counts restarts of pods; else another controller counts them."""


def with_policies(parsed: ParsedJob, policy: MemberPolicy) -> ParsedJob:
    """The job with its success policy, and with restarts of single pods unless the gang restarts whole."""
    job = parsed.job
    if parsed.run_policy.gang_restart:
        required = job.success.roles or _required_roles(parsed)
        return replace(parsed, job=replace(job, success=SuccessPolicy(required)))
    limit = parsed.run_policy.backoff_limit if policy.is_limited else None
    by_role = {each.role: each for each in parsed.replicas}
    roles = tuple(_role(role, by_role[role.name], policy) for role in job.roles)
    roles = (*roles[:-1], *(_scalable(role, parsed) for role in roles[-1:]))
    restart = RestartPolicy(scope=RestartScope.MEMBER, member_limit=limit)
    return replace(parsed, job=replace(job, roles=roles, restart=restart, success=_success(job, parsed, policy)))


def _role(role: Role, replicas: Replicas, policy: MemberPolicy) -> Role:
    restart = _RESTARTS.get(replicas.restart_policy, MemberRestart.ON_FAILURE)
    if replicas.type in policy.never_restarted:
        restart = MemberRestart.NEVER
    if replicas.type in policy.restarted_if_deleted or (restart is MemberRestart.NEVER and policy.replaces_deleted):
        restart = MemberRestart.ON_LOSS
    return replace(role, restart=restart, optional=replicas.type in policy.optional)


def _scalable(role: Role, parsed: ParsedJob) -> Role:
    """The role, to which replicas are added while it runs, and from which they are removed, as those operators do.

    Only the last role of a job is one: the members of others keep their numbers, by which their ends are reported. The
    ranks of a gang that `minAvailable` let start without some of its pods do not meet new ones, and neither do agents:
    such a gang starts anew.
    """
    is_fixed = bool(requested_agent(ManifestField(parsed.manifest)))
    can_meet = not role.elastic or parsed.spec["elasticPolicy"].value is not None
    return replace(role, scales_in_place=can_meet and not is_fixed)


def _success(job: Job, parsed: ParsedJob, policy: MemberPolicy) -> SuccessPolicy:
    there = {role.name for role in job.roles}
    leaders = tuple(each.role for each in parsed.replicas if each.type in policy.leaders and each.role in there)
    return SuccessPolicy(leaders) if leaders else SuccessPolicy((WORKER.lower(),), policy.workers)


def _required_roles(parsed: ParsedJob) -> tuple[str, ...]:
    """The roles whose members must succeed; () for all. The others serve them and do not end by themselves."""
    types = [each.type for each in parsed.replicas]
    launched = any(each in _LAUNCHERS for each in types)
    serving = [each for each in types if each not in _LAUNCHERS] if launched else _SERVERS.get(parsed.kind, ())
    required = tuple(each.role for each in parsed.replicas if each.type not in serving)
    return required if len(required) < len(types) else ()
