"""Environment variables of a rank: those of torchrun's workers except OMP_NUM_THREADS, and those of Windlass.

`rank_processes` sets OMP_NUM_THREADS for the fork server, and ranks inherit it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from windlass import wire

_NCCL = "TORCH_NCCL_ASYNC_ERROR_HANDLING"


class RankPosition(NamedTuple):
    """Numbers of a rank and of its node, with the sizes of the sets in which they count."""

    rank: int
    local_rank: int
    world_size: int
    local_world_size: int
    group_rank: int
    group_world_size: int


def rank_positions(membership: wire.Membership) -> tuple[RankPosition, ...]:
    """Positions of the ranks of the member `me`."""
    sizes = [member.ranks for member in membership.members]
    node, nodes, world = membership.me, len(sizes), sum(sizes)
    first, here = sum(sizes[:node]), sizes[node]
    return tuple(RankPosition(first + local, local, world, here, node, nodes) for local in range(here))


class RankSettings(NamedTuple):
    """Settings that are the same for all ranks of an agent."""

    run_id: str
    role: str
    max_restarts: int
    agent_store: bool
    socket: str
    dump_dir: str
    virtual_local_rank: bool = False
    replica_memory_dir: str = ""
    survivors: bool = False
    """Other ranks of this generation survived the one before and hold the training state."""


def generation_variables(position: RankPosition, membership: wire.Membership) -> dict[str, str]:
    """Variables that change from one generation to the next, also for a rank that survives."""
    return {
        "RANK": str(position.rank),
        "WORLD_SIZE": str(position.world_size),
        "LOCAL_WORLD_SIZE": str(position.local_world_size),
        "GROUP_RANK": str(position.group_rank),
        "GROUP_WORLD_SIZE": str(position.group_world_size),
        "ROLE_RANK": str(position.rank),
        "ROLE_WORLD_SIZE": str(position.world_size),
        "MASTER_ADDR": membership.address or membership.members[0].address,
        "MASTER_PORT": str(membership.port),
        "TORCHELASTIC_RESTART_COUNT": str(membership.generation - 1),
        wire.GENERATION: str(membership.generation),
    }


def rank_variables(
    position: RankPosition,
    membership: wire.Membership,
    settings: RankSettings,
    error_file: str,
    inherited: Mapping[str, str],
) -> dict[str, str]:
    """Variables of a rank besides those that it inherits from the agent. Raises ValueError."""
    return {
        **generation_variables(position, membership),
        "ROLE_NAME": settings.role,
        "TORCHELASTIC_MAX_RESTARTS": str(settings.max_restarts),
        "TORCHELASTIC_RUN_ID": settings.run_id,
        # torch compares with "True": with any other value rank 0 hosts the store
        "TORCHELASTIC_USE_AGENT_STORE": str(settings.agent_store),
        wire.ERROR_FILE: error_file,
        _NCCL: inherited.get(_NCCL, "1"),
        wire.AGENT_SOCKET: settings.socket,
        wire.HEARTBEAT_RING: wire.RING_LAYOUT,
        wire.DUMPS: settings.dump_dir,
        wire.MEMORY: settings.replica_memory_dir,
        wire.SURVIVORS: str(int(settings.survivors)),
        **_device(position, settings, inherited),
    }


def _device(position: RankPosition, settings: RankSettings, inherited: Mapping[str, str]) -> dict[str, str]:
    if not settings.virtual_local_rank:
        return {"LOCAL_RANK": str(position.local_rank)}
    visible = inherited.get("CUDA_VISIBLE_DEVICES")
    devices = visible.split(",") if visible else [str(number) for number in range(position.local_world_size)]
    if position.local_rank >= len(devices):
        raise ValueError(
            f"rank {position.local_rank} of this node has no GPU of its own in CUDA_VISIBLE_DEVICES={visible}"
        )
    return {"LOCAL_RANK": "0", "CUDA_VISIBLE_DEVICES": devices[position.local_rank].strip()}
