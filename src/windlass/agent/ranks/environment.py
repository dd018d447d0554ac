"""What a rank is told by variables: all that torchrun's agent tells its workers, and Windlass's own."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from windlass import wire

_NCCL = "TORCH_NCCL_ASYNC_ERROR_HANDLING"


class RankPosition(NamedTuple):
    """Which rank this is, and of how many."""

    rank: int
    local: int
    world: int
    local_world: int
    group: int
    groups: int


def rank_positions(membership: wire.Membership) -> tuple[RankPosition, ...]:
    """Of the ranks of the member that is `me`."""
    sizes = [member.ranks for member in membership.members]
    first, here = sum(sizes[: membership.me]), sizes[membership.me]
    return tuple(
        RankPosition(first + local, local, sum(sizes), here, membership.me, len(sizes)) for local in range(here)
    )


class RankSettings(NamedTuple):
    """What all ranks of an agent are told alike."""

    run_id: str
    role: str
    max_restarts: int
    agent_store: bool
    socket: str
    dumps: str
    virtual_local_rank: bool = False
    memory: str = ""
    survivors: bool = False
    """Others go on with this generation, and have the state."""


def generation_variables(place: RankPosition, membership: wire.Membership) -> dict[str, str]:
    """What changes from one generation to the next, for a rank that goes on, too."""
    return {
        "RANK": str(place.rank),
        "WORLD_SIZE": str(place.world),
        "LOCAL_WORLD_SIZE": str(place.local_world),
        "GROUP_RANK": str(place.group),
        "GROUP_WORLD_SIZE": str(place.groups),
        "ROLE_RANK": str(place.rank),
        "ROLE_WORLD_SIZE": str(place.world),
        "MASTER_ADDR": membership.address or membership.members[0].address,
        "MASTER_PORT": str(membership.port),
        "TORCHELASTIC_RESTART_COUNT": str(membership.generation - 1),
        wire.GENERATION: str(membership.generation),
    }


def rank_variables(
    place: RankPosition, membership: wire.Membership, told: RankSettings, error_file: str, inherited: Mapping[str, str]
) -> dict[str, str]:
    """To be laid over the environment that the agent has itself."""
    return {
        **generation_variables(place, membership),
        "ROLE_NAME": told.role,
        "TORCHELASTIC_MAX_RESTARTS": str(told.max_restarts),
        "TORCHELASTIC_RUN_ID": told.run_id,
        # torch compares with "True": anything else makes rank 0 host the store
        "TORCHELASTIC_USE_AGENT_STORE": str(told.agent_store),
        wire.ERROR_FILE: error_file,
        _NCCL: inherited.get(_NCCL, "1"),
        wire.AGENT_SOCKET: told.socket,
        wire.TRACKS: wire.TRACKS_LAYOUT,
        wire.DUMPS: told.dumps,
        wire.MEMORY: told.memory,
        wire.SURVIVORS: str(int(told.survivors)),
        **_device(place, told, inherited),
    }


def _device(place: RankPosition, told: RankSettings, inherited: Mapping[str, str]) -> dict[str, str]:
    if not told.virtual_local_rank:
        return {"LOCAL_RANK": str(place.local)}
    visible = inherited.get("CUDA_VISIBLE_DEVICES")
    devices = visible.split(",") if visible else [str(number) for number in range(place.local_world)]
    if place.local >= len(devices):
        raise ValueError(f"rank {place.local} of this node has no GPU of its own in CUDA_VISIBLE_DEVICES={visible}")
    return {"LOCAL_RANK": "0", "CUDA_VISIBLE_DEVICES": devices[place.local].strip()}
