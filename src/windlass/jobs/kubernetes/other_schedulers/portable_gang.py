"""A job as pod templates that need no operator: one for each role, which all of its replicas share."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

from windlass import wire
from windlass.core.model.job import Job, Launcher, Role
from windlass.jobs.description.submission import Submission
from windlass.jobs.errors import input_error
from windlass.jobs.kubernetes.kinds.registry import members, read
from windlass.jobs.kubernetes.manifest_reader import Fault, Manifest
from windlass.jobs.kubernetes.manifests.job_file_objects import fault_in_a_file, training_job_resource
from windlass.jobs.kubernetes.other_schedulers.indexed_template import IndexSource, indexed_spec
from windlass.jobs.kubernetes.pods.trainingjob_template import CONTAINER
from windlass.launch.replica_names import replica_name

HostName: TypeAlias = Callable[[str, str, int], str]
"""The name of a pod in its service, from the names of the job and the role and the index."""
INSTANCE = "app.kubernetes.io/instance"
"""Label of all objects of a gang. Source: Kubernetes' recommended labels."""
_OPERATORS_OWN = (wire.GENERATION,)
"""Variables that only the operator can set: a template has no number of restarts."""


@dataclass(frozen=True, slots=True)
class PortableRole:
    """Equal pods of a gang."""

    name: str
    count: int
    template: Manifest
    """Pod template; its container knows its rank from the index of the pod."""


@dataclass(frozen=True, slots=True)
class PortableGang:
    """A job as pod templates."""

    job: Job
    name: str
    roles: tuple[PortableRole, ...]
    least: int
    """Number of pods that start together."""
    warnings: tuple[str, ...] = ()

    @property
    def labels(self) -> dict[str, str]:
        """Labels of every object of the gang."""
        return {INSTANCE: self.name}

    def metadata(self, suffix: str = "") -> Manifest:
        """Metadata of one of its objects."""
        return {"name": f"{self.name}{suffix}", "labels": self.labels}


def is_elastic(job: Job) -> bool:
    """Tells whether the gang can run with fewer pods than its templates: torchrun or the agent counts the nodes."""
    return len(job.roles) == 1 and job.roles[0].elastic and job.launcher is not Launcher.PLAIN


def portable_gang(
    submission: Submission, index: IndexSource, *, host: HostName = replica_name, fixed: bool = False
) -> PortableGang:
    """The gang of a job. `fixed`: the scheduler starts all pods or none. Raises InputError.

    An elastic gang has its largest number of pods, and torchrun's c10d rendezvous for those that started.
    """
    asked = submission.job
    grows = is_elastic(asked) and not fixed
    sized = replace(asked, roles=tuple(_sized(role, is_largest=grows) for role in asked.roles))
    parsed = read(training_job_resource(replace(submission, job=sized)))
    if isinstance(parsed, Fault):
        raise input_error(submission.source, fault_in_a_file(parsed))
    pods = [(each.role, each.pod["spec"]) for each in members(parsed, 1)]
    first = sized.roles[0].name
    names = {
        f"{replica_name(parsed.name, first, 0)}.{parsed.name}": f"{host(parsed.name, first, 0)}.{parsed.name}",
    }
    roles = []
    for role, replicas in zip(sized.roles, parsed.replicas, strict=True):
        specs = [_without_operator(spec, names) for name, spec in pods if name == role.name]
        spec = indexed_spec(specs, index)
        if grows:
            spec = _with_rendezvous(spec, asked, f"{host(parsed.name, first, 0)}.{parsed.name}")
        about = replicas.template.get("metadata") or {}
        labels = {**(about.get("labels") or {}), INSTANCE: parsed.name}
        roles.append(PortableRole(role.name, role.replicas, {"metadata": {**about, "labels": labels}, "spec": spec}))
    warnings = tuple(f"{submission.source}: {parsed.name}: {warning}" for warning in parsed.warnings)
    least = _least(asked.roles[0]) if grows else sized.members
    return PortableGang(asked, parsed.name, tuple(roles), least, warnings)


def _sized(role: Role, *, is_largest: bool) -> Role:
    count = (role.max_replicas or role.replicas) if is_largest else role.replicas
    return replace(role, replicas=count, min_replicas=None, max_replicas=None)


def _least(role: Role) -> int:
    return role.replicas if role.min_replicas is None else role.min_replicas


def _without_operator(spec: Manifest, names: dict[str, str]) -> Manifest:
    """The spec of a pod for the scheduler of its template, in which hosts have other names."""
    kept = {name: value for name, value in spec.items() if name != "schedulerName"}
    containers = [
        {**each, "env": [_renamed(one, names) for one in each["env"] if one["name"] not in _OPERATORS_OWN]}
        if each["name"] == CONTAINER
        else each
        for each in spec["containers"]
    ]
    return {**kept, "containers": containers}


def _renamed(variable: dict[str, Any], names: dict[str, str]) -> dict[str, Any]:
    value = variable.get("value")
    return {**variable, "value": names[value]} if value in names else variable


def _with_rendezvous(spec: Manifest, job: Job, host: str) -> Manifest:
    """The spec whose torchrun or agent meets the nodes that have started, and those that come later."""
    [role] = job.roles
    most = role.max_replicas or role.replicas
    options = {
        "PET_NNODES": f"{_least(role)}:{most}",
        "PET_RDZV_BACKEND": "c10d",
        "PET_RDZV_ENDPOINT": f"{host}:29500",
        "PET_MAX_RESTARTS": str(job.restart.user_limit),
    }
    static = ("PET_NODE_RANK", "PET_MASTER_ADDR", "PET_MASTER_PORT", "MASTER_ADDR", "MASTER_PORT")
    return {**spec, "containers": _with_options(spec["containers"], options, static)}


def _with_options(containers: Sequence[Manifest], options: dict[str, str], without: Sequence[str]) -> list[Manifest]:
    added = [{"name": name, "value": value} for name, value in options.items()]
    return [
        {**each, "env": [one for one in each["env"] if one["name"] not in (*options, *without)] + added}
        if each["name"] == CONTAINER
        else each
        for each in containers
    ]
