"""Volumes that are made once a node is chosen are told which one, before the first pod that mounts them goes there."""

from __future__ import annotations

from collections.abc import Sequence

from windlass.backends.kubernetes.client.api_errors import ApiError
from windlass.backends.kubernetes.client.connection import Connection
from windlass.backends.kubernetes.client.resources import CLAIMS
from windlass.backends.kubernetes.cluster.volumes import SELECTED_NODE
from windlass.backends.kubernetes.gangs.gang import Gang
from windlass.backends.kubernetes.gangs.run import Slot
from windlass.jobs.kubernetes.parsed_job import Member


async def choose_volumes(connection: Connection, gang: Gang, seats: Sequence[tuple[Slot, Member]]) -> None:
    """For every claim of the gang that waits for it. Raises ApiError, Unreachable, NotLeader."""
    for claim in gang.fit.to_choose:
        node = next((slot.node for slot, member in seats if _mounts(member, claim)), None)
        if node is None:
            continue
        body = {"metadata": {"annotations": {SELECTED_NODE: node}}}
        try:
            await connection.patch(CLAIMS, gang.home.namespace, claim, body)
        except ApiError as error:
            if not error.is_missing:  # then its pods wait for it, and say so
                raise


def _mounts(member: Member, claim: str) -> bool:
    volumes = member.pod["spec"].get("volumes") or ()
    return any((volume.get("persistentVolumeClaim") or {}).get("claimName") == claim for volume in volumes)
