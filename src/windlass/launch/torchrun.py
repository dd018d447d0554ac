"""torchrun's contract: the variables that an unchanged torchrun script, or torchrun itself, reads.

Sources: torch 2.13 `distributed/elastic/agent/server/local_elastic_agent.py` (what a worker gets),
`distributed/run.py` and `argparse_util.py` (PET_*: one per option of torchrun), `distributed/rendezvous.py` (env://).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from windlass import wire
from windlass.core.model.job import Job, Launcher, Role
from windlass.launch.ranks import Rank, role_named
from windlass.launch.threads import VARIABLE as OMP
from windlass.launch.threads import threads_of


@dataclass(frozen=True, slots=True)
class Rendezvous:
    """Where the ranks of one generation meet: an address of the node of rank 0, and a port that is free there.

    A port of its own for each generation, so that nobody reaches the store of a generation that is ending.
    """

    address: str
    port: int


def environment(  # noqa: PLR0913 - what makes one process has that many parts, all named
    job: Job,
    rank: Rank,
    *,
    job_id: str,
    generation: int,
    node: str,
    rendezvous: Rendezvous,
    devices: Sequence[str] = (),
    cpu_share: int = 1000,
    inherited: Mapping[str, str] | None = None,
) -> dict[str, str]:
    """Every variable of one process, to be laid over the environment it inherits.

    `devices`: its replica's GPUs as CUDA_VISIBLE_DEVICES wants them, the same for all ranks of the replica, because
    torchrun scripts choose theirs by LOCAL_RANK. `cpu_share`: see `threads.threads_of`. `inherited`: what is there
    already; used only to leave a user's own OMP_NUM_THREADS and PYTHONUNBUFFERED alone.

    What the job's env says wins over defaults (threads, buffering) and loses to identity (ranks, addresses, devices).
    """
    role = role_named(job, rank.role)
    inherited = inherited or {}
    return {
        **_defaults(role, cpu_share, inherited),
        **role.env,
        **_placement(job, rank, job_id, generation, node, devices),
        **_meeting(rendezvous),
        **_options(job, rank, role, job_id, generation, rendezvous),
        **(_for_rank(job, rank, role, job_id, generation) if job.launcher is Launcher.PLAIN else {}),
    }


def _defaults(role: Role, cpu_share: int, inherited: Mapping[str, str]) -> dict[str, str]:
    """What the job's own env, or the environment it is started from, may say otherwise."""
    defaults = {"PYTHONUNBUFFERED": "1", "TORCH_NCCL_ASYNC_ERROR_HANDLING": "1"}
    threads = threads_of(role, cpu_share=cpu_share, inherited=inherited)
    if threads.count is not None:
        defaults[OMP] = str(threads.count)
    return {name: value for name, value in defaults.items() if name not in inherited}


def _placement(job: Job, rank: Rank, job_id: str, generation: int, node: str, devices: Sequence[str]) -> dict[str, str]:
    placement = {
        # Empty, not absent: a job that asked for no GPU must not see any.
        "CUDA_VISIBLE_DEVICES": ",".join(devices),
        wire.JOB_ID: job_id,
        wire.JOB_NAME: job.name,
        wire.GENERATION: str(generation),
        wire.GRACE: f"{job.grace / 1000:g}",
        wire.NODE: node,
        wire.ROLE: rank.role,
        wire.REPLICA: str(rank.replica),
    }
    if job.array is not None:
        placement[wire.INDEX] = str(job.array.index)
    return placement


def _meeting(rendezvous: Rendezvous) -> dict[str, str]:
    return {"MASTER_ADDR": rendezvous.address, "MASTER_PORT": str(rendezvous.port)}


def _for_rank(job: Job, rank: Rank, role: Role, job_id: str, generation: int) -> dict[str, str]:
    """What torchrun's agent tells a worker. A GROUP there is a node's agent; here it is a replica."""
    return {
        "RANK": str(rank.number),
        "LOCAL_RANK": str(rank.local),
        "WORLD_SIZE": str(job.world_size),
        "LOCAL_WORLD_SIZE": str(role.procs),
        "GROUP_RANK": str(rank.member),
        "GROUP_WORLD_SIZE": str(job.members),
        "ROLE_NAME": role.name,
        "ROLE_RANK": str(rank.role_rank),
        "ROLE_WORLD_SIZE": str(role.replicas * role.procs),
        "TORCHELASTIC_RUN_ID": job_id,
        "TORCHELASTIC_RESTART_COUNT": str(generation - 1),
        "TORCHELASTIC_MAX_RESTARTS": str(job.restart.user_limit),
        # torch compares with "True": anything else makes rank 0 host the store at MASTER_ADDR:MASTER_PORT.
        "TORCHELASTIC_USE_AGENT_STORE": "False",
    }


def _options(job: Job, rank: Rank, role: Role, job_id: str, generation: int, rendezvous: Rendezvous) -> dict[str, str]:
    """Options for torchrun by their variables, which pods of a PyTorchJob have too, and scripts read.

    Static rendezvous: replica 0's agent hosts the store.

    An option that the command itself gives wins over its variable; that is torchrun's own rule.
    """
    return {
        "PET_NNODES": str(job.members),
        "PET_NPROC_PER_NODE": str(role.procs),
        "PET_NODE_RANK": str(rank.member),
        "PET_MASTER_ADDR": rendezvous.address,
        "PET_MASTER_PORT": str(rendezvous.port),
        "PET_RDZV_BACKEND": "static",
        "PET_RDZV_ID": f"{job_id}.{generation}",
        "PET_ROLE": role.name,
    }
