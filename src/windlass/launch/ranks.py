"""Numbers the processes of a gang: over the roles in their order, over replicas, over processes of a replica."""

from __future__ import annotations

from dataclasses import dataclass

from windlass.core.model.job import Job, Launcher, Role


@dataclass(frozen=True, slots=True)
class Rank:
    """One process that Windlass starts: a rank with launcher PLAIN, else the process that starts a replica's ranks."""

    number: int
    """Gang-wide, from 0: RANK, and the prefix of its log lines."""
    role: str
    replica: int
    """Index of its replica within the role."""
    member: int
    """Gang-wide number of its replica."""
    local: int
    """Index within its replica: LOCAL_RANK."""
    role_rank: int
    """Index among the processes of its role."""


def ranks_of(job: Job) -> tuple[Rank, ...]:
    """Every process to start, in the order of their numbers."""
    ranks: list[Rank] = []
    member = 0
    for role in job.roles:
        started = processes(job, role)
        for replica in range(role.replicas):
            for local in range(started):
                role_rank = replica * started + local
                ranks.append(Rank(len(ranks), role.name, replica, member, local, role_rank))
            member += 1
    return tuple(ranks)


def first_rank(job: Job, member: Rank) -> int:
    """Number of a replica's first rank among all ranks of the gang, under every launcher."""
    names = [role.name for role in job.roles]
    earlier = job.roles[: names.index(member.role)]
    return sum(role.replicas * role.procs for role in earlier) + member.replica * role_named(job, member.role).procs


def processes(job: Job, role: Role) -> int:
    """Number of processes that Windlass starts in one replica of a role."""
    return role.procs if job.launcher is Launcher.PLAIN else 1


def role_named(job: Job, name: str) -> Role:
    """The role of this name. Raises KeyError."""
    for role in job.roles:
        if role.name == name:
            return role
    raise KeyError(name)
