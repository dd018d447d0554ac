"""What torchrun's variables are in a new membership, for a rank that goes on. Pure."""

from __future__ import annotations

from windlass import wire


def variables_of(membership: wire.Membership) -> dict[str, str]:
    """To be laid over those that the rank was started with."""
    world = str(sum(member.ranks for member in membership.members))
    return {
        "RANK": str(membership.rank),
        "WORLD_SIZE": world,
        "GROUP_RANK": str(membership.me),
        "GROUP_WORLD_SIZE": str(len(membership.members)),
        "ROLE_RANK": str(membership.rank),
        "ROLE_WORLD_SIZE": world,
        "MASTER_ADDR": membership.address or membership.members[0].address,
        "MASTER_PORT": str(membership.port),
        "TORCHELASTIC_RESTART_COUNT": str(membership.generation - 1),
        wire.GENERATION: str(membership.generation),
    }
