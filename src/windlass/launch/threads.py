"""Chooses the number of threads of the numeric libraries in one rank, and gives the reason for it.

Without OMP_NUM_THREADS each rank uses all cores of the machine, and the ranks of one node compete for them. torchrun
sets 1 in every case; here a rank gets its part of the CPUs that its replica requests.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from windlass.core.model.job import Role
from windlass.core.model.resources import CPU

VARIABLE = "OMP_NUM_THREADS"


@dataclass(frozen=True, slots=True)
class Threads:
    """Threads of each rank; `count` is None where the variable is set already."""

    count: int | None
    why: str
    """One line for people: "OMP_NUM_THREADS=4 (8 CPUs for 2 ranks)"."""


def threads_of(role: Role, *, cpu_share: int, inherited: Mapping[str, str] | None = None) -> Threads:
    """Threads of each rank of a replica.

    `cpu_share`: milli-cores of the node for a replica that requests no CPU, usually the node's cores divided by the
    replicas that it can hold. `inherited`: other variables of the process.
    """
    if VARIABLE in role.env:
        return Threads(None, f"{VARIABLE}={role.env[VARIABLE]} (set by the job)")
    if inherited and VARIABLE in inherited:
        return Threads(None, f"{VARIABLE}={inherited[VARIABLE]} (set in the environment)")
    requested = role.resources.get(CPU, 0)
    count = max(1, (requested or cpu_share) // 1000 // role.procs)
    cores = f"{(requested or cpu_share) / 1000:g}"
    cpus = f"{cores} CPU{'s' * (cores != '1')}"
    source = cpus if requested else f"{cpus} as this replica's share of the node"
    ranks = "1 rank" if role.procs == 1 else f"{role.procs} ranks"
    return Threads(count, f"{VARIABLE}={count} ({source} for {ranks})")
