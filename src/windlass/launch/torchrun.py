"""torchrun's contract: the variables that an unchanged torchrun script, or torchrun itself, reads.

Sources: torch 2.13 `distributed/elastic/agent/server/local_elastic_agent.py` (what a worker gets),
`distributed/run.py` and `argparse_util.py` (PET_*: one per option of torchrun), `distributed/store.py` (env://).
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
class StoreAddress:
    """Address of the store of one generation: a host of the node of rank 0, and a port that is free there.

    Each generation has its own port, so that no rank connects to the store of a generation that is ending.
    """

    address: str
    port: int


def environment(  # noqa: PLR0913 - a process depends on that many parts, all named
    job: Job,
    rank: Rank,
    *,
    job_id: str,
    generation: int,
    node: str,
    store: StoreAddress,
    devices: Sequence[str] = (),
    cpu_share: int = 1000,
    inherited: Mapping[str, str] | None = None,
) -> dict[str, str]:
    """All variables of one process; they override the environment that it inherits.

    `devices`: its replica's GPUs as CUDA_VISIBLE_DEVICES wants them, the same for all ranks of the replica, because
    torchrun scripts choose theirs by LOCAL_RANK. `cpu_share`: see `threads.threads_of`. `inherited`: the inherited
    environment; used only to keep a user's own OMP_NUM_THREADS and PYTHONUNBUFFERED.

    The job's env overrides defaults (threads, buffering) and is overridden by identity (ranks, addresses, devices).
    """
    role = role_named(job, rank.role)
    inherited = inherited or {}
    return {
        **_defaults(role, cpu_share, inherited),
        **role.env,
        **_placement(job, rank, job_id, generation, node, devices),
        **_store_variables(store),
        **_options(job, rank, role, job_id, generation, store),
        **(_for_rank(job, rank, role, job_id, generation) if job.launcher is Launcher.PLAIN else {}),
    }


def _defaults(role: Role, cpu_share: int, inherited: Mapping[str, str]) -> dict[str, str]:
    """Variables that the job's env and the inherited environment override."""
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


def _store_variables(store: StoreAddress) -> dict[str, str]:
    return {"MASTER_ADDR": store.address, "MASTER_PORT": str(store.port)}


def _for_rank(job: Job, rank: Rank, role: Role, job_id: str, generation: int) -> dict[str, str]:
    """Variables of torchrun's workers. A GROUP there is a node's agent; here it is a replica."""
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
        # torch compares with "True": with any other value rank 0 hosts the store at MASTER_ADDR:MASTER_PORT.
        "TORCHELASTIC_USE_AGENT_STORE": "False",
    }


def _options(job: Job, rank: Rank, role: Role, job_id: str, generation: int, store: StoreAddress) -> dict[str, str]:
    """Options of torchrun as variables, as in pods of a PyTorchJob; scripts read them too.

    Static rendezvous: replica 0's agent hosts the store. By torchrun's own rule an option in the command overrides its
    variable.
    """
    return {
        "PET_NNODES": str(job.members),
        "PET_NPROC_PER_NODE": str(role.procs),
        "PET_NODE_RANK": str(rank.member),
        "PET_MASTER_ADDR": store.address,
        "PET_MASTER_PORT": str(store.port),
        "PET_RDZV_BACKEND": "static",
        "PET_RDZV_ID": f"{job_id}.{generation}",
        "PET_ROLE": role.name,
    }
