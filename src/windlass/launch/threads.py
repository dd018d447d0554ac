"""How many threads the numeric libraries of one rank may use, and why.

Left alone, OpenMP takes every core of the machine in every rank, and the ranks of one node fight for them.
torchrun sets 1 whatever was asked for; here a rank gets what its replica asked for.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from windlass.core.model.job import Role
from windlass.core.model.resources import CPU

VARIABLE = "OMP_NUM_THREADS"


@dataclass(frozen=True, slots=True)
class Threads:
    """`count` threads a rank; None if the variable is not to be touched."""

    count: int | None
    why: str
    """One line for people: "OMP_NUM_THREADS=4 (8 CPUs for 2 ranks)"."""


def threads_of(role: Role, *, cpu_share: int, inherited: Mapping[str, str] | None = None) -> Threads:
    """The threads of each rank of a replica.

    `cpu_share`: milli-cores of the node that fall to a replica which asks for no CPU, usually the node's cores
    divided by the replicas it can hold. `inherited`: variables the process gets from elsewhere.
    """
    if VARIABLE in role.env:
        return Threads(None, f"{VARIABLE}={role.env[VARIABLE]} (set by the job)")
    if inherited and VARIABLE in inherited:
        return Threads(None, f"{VARIABLE}={inherited[VARIABLE]} (set in the environment)")
    asked = role.resources.get(CPU, 0)
    count = max(1, (asked or cpu_share) // 1000 // role.procs)
    cores = f"{(asked or cpu_share) / 1000:g}"
    cpus = f"{cores} CPU{'s' * (cores != '1')}"
    source = cpus if asked else f"{cpus} as this replica's share of the node"
    ranks = "1 rank" if role.procs == 1 else f"{role.procs} ranks"
    return Threads(count, f"{VARIABLE}={count} ({source} for {ranks})")
