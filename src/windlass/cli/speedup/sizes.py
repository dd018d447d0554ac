"""Resizes a job to a number of ranks: its replicas, resources and threads. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from windlass.cli.errors import UsageError
from windlass.core.model.job import Job, Role
from windlass.core.model.resources import CPU, is_device
from windlass.launch.threads import VARIABLE


@dataclass(frozen=True, slots=True)
class Size:
    """`nodes` replicas of `procs` ranks each."""

    nodes: int
    procs: int

    @property
    def ranks(self) -> int:
        """Number of ranks of the gang."""
        return self.nodes * self.procs


def parse_counts(option: str, text: str) -> tuple[int, ...]:
    """Parses "1,2,4"; returns the numbers, smallest first. Raises UsageError."""
    if not re.fullmatch(r"[1-9][0-9]{0,4}(,[1-9][0-9]{0,4})+", text.replace(" ", "")):
        raise UsageError(f"{option} expects several numbers to compare, such as 1,2,4, not {text[:40]!r}")
    found = sorted({int(number) for number in text.split(",")})
    if len(found) == 1:
        raise UsageError(f"{option} {text}: at least two sizes are needed; write for example 1,2,4")
    return tuple(found)


def sizes_by_ranks(role: Role, ranks: Sequence[int]) -> list[Size]:
    """Returns a size for each number of ranks: as few replicas as possible, equally filled. Raises UsageError.

    A job of one rank gets one replica at any size.
    """
    single = role.replicas == role.procs == 1
    each = max(ranks) if single else role.procs
    found = []
    for count in ranks:
        nodes = -(-count // each)
        if count % nodes:
            raise UsageError(
                f"--ranks {count}: cannot be divided evenly among {nodes} nodes of up to {each} ranks; "
                f"use a multiple of {each}, or another --procs"
            )
        found.append(Size(nodes, count // nodes))
    return found


def sizes_by_nodes(role: Role, nodes: Sequence[int]) -> list[Size]:
    """Returns a size for each number of nodes, with the job's own ranks per node."""
    return [Size(count, role.procs) for count in nodes]


def single_role(job: Job) -> Role:
    """Returns the only role of a job. Raises UsageError for a job of several roles."""
    if len(job.roles) > 1:
        names = ", ".join(role.name for role in job.roles)
        raise UsageError(f"{job.name} has several roles ({names}); only a job of one role can be resized")
    return job.roles[0]


def resize_job(job: Job, size: Size, env: Mapping[str, str]) -> Job:
    """Returns the job on another number of ranks, with `env` added and without restarts. Raises UsageError."""
    role = single_role(job)
    changed = replace(
        role,
        replicas=size.nodes,
        procs=size.procs,
        min_replicas=None,
        max_replicas=None,
        resources=_resources(role, size.procs),
        env={**role.env, **env},
    )
    return replace(job, roles=(changed,), suspend=False, restart=replace(job.restart, user_limit=0))


def threads_for(role: Role, most: int, cores: int, inherited: Mapping[str, str]) -> dict[str, str]:
    """Returns a variable for the same number of threads per rank at every size, so that small sizes get no extra cores.

    Returns {} if the variable is set already, and for ranks that request devices or CPUs, which get a fixed share.
    """
    if _has_devices(role) or not _shares_cores(role) or VARIABLE in role.env or VARIABLE in inherited:
        return {}
    return {VARIABLE: str(max(1, cores // most))}


def shares_cores(role: Role, size: Size, cores: int) -> bool:
    """Whether the ranks of this size get less than one core each."""
    return not _has_devices(role) and _shares_cores(role) and size.ranks > cores


def _resources(role: Role, procs: int) -> dict[str, int]:
    """Returns the resources of a replica of `procs` ranks. Ranks that request at most a core each may share cores."""
    dropped = (CPU,) if _shares_cores(role) and not _has_devices(role) else ()
    return {
        name: _share(name, amount, procs, role.procs) for name, amount in role.resources.items() if name not in dropped
    }


def _share(name: str, amount: int, procs: int, before: int) -> int:
    if is_device(name) and amount * procs % before:
        raise UsageError(
            f"{procs} of {before} ranks would have {amount * procs / before:g} of a node's {amount} {name}; "
            "use as many --procs as --gpus"
        )
    return amount * procs // before


def _shares_cores(role: Role) -> bool:
    return role.resources.get(CPU, 0) in (0, 1000 * role.procs)


def _has_devices(role: Role) -> bool:
    return any(is_device(name) for name in role.resources)
