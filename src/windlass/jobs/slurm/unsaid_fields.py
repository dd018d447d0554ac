"""Fields of a job that a batch script of Slurm cannot say, each with what to do instead."""

from __future__ import annotations

from collections.abc import Iterator

from windlass.core.model.job import Job, RestartPolicy, Role
from windlass.core.model.resources import CPU, GPU_MILLI
from windlass.jobs.slurm.component_step import is_exported

_DEFAULT = Job("", ())
_POLICY = RestartPolicy()
DEFAULT_GRACE = _DEFAULT.grace
"""Milliseconds from SIGTERM to SIGKILL of a job that states none."""


def unsaid_fields(job: Job) -> Iterator[str]:
    """Names of fields with reasons, each once."""
    yield from dict.fromkeys(reason for role in job.roles for reason in _of_the_role(role))
    yield from _of_the_restarts(job)
    if job.after:
        yield "after: Slurm knows jobs by number; write sbatch --dependency=afterok:NUMBER"
    if job.walltime is None and job.grace != _DEFAULT.grace:
        yield "grace: without time no signal is sent before the end"
    if job.priority > 0:
        yield "priority: only operators of Slurm may set a negative nice value"
    if len(job.gpu_types) > 1:
        yield f"gpu_type: only {job.gpu_types[0]} is requested"
    for name in ("deadline", "start_timeout", "unreachable_grace", "ttl", "topology", "agent"):
        if getattr(job, name) != getattr(_DEFAULT, name):
            yield f"{name}: sbatch has no such option"
    if others := sorted(set(job.labels) - {"slurm-account", "slurm-qos"}):
        yield f"labels: sbatch has none, lost are {', '.join(others)}"


def _of_the_restarts(job: Job) -> Iterator[str]:
    if job.restart.infrastructure_limit not in (0, _POLICY.infrastructure_limit):
        yield "restart.infrastructure: Slurm requeues after each loss of a node"
    for name in ("retryable_exit_codes", "fatal_exit_codes"):
        if getattr(job.restart, name):
            yield f"restart.{name}: Slurm does not tell exit codes apart"


def _of_the_role(role: Role) -> Iterator[str]:
    if role.resources.get(GPU_MILLI):
        yield "gpu_share: parts of GPUs depend on the cluster; write --gres=shard:N"
    if role.resources.get(CPU, 0) % 1000:
        yield "cpus: Slurm counts whole CPUs; the number is rounded up"
    if role.image:
        yield "image: containers depend on the cluster; with Pyxis write --container-image"
    for name, field in (("pod", role.pod), ("network", role.network), ("tolerations", role.tolerations)):
        if field:
            yield f"{name}: it has no effect under Slurm"
    if others := [name for name in role.env if not is_exported(name)]:
        yield f"env: no shell exports variables of such names, lost are {', '.join(others)}"
    if role.node_selector:
        yield "selector: nodes of Slurm have features and no labels; write affinity"
    if any(match.operator != "Exists" for term in role.affinity for match in term):
        yield "affinity: nodes of Slurm have features and no values of labels"
