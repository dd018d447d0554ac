"""Writes the status of PodGroups in the background, in the fields of their dialect."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

from windlass.backends.kubernetes.client.api_errors import ApiError
from windlass.backends.kubernetes.client.coalescing_writer import CoalescingWriter
from windlass.backends.kubernetes.client.connection import Connection
from windlass.backends.kubernetes.external.dialects import RESOURCES
from windlass.backends.kubernetes.external.groups import Groups
from windlass.jobs.kubernetes.external.group_status import counts_of, group_patch
from windlass.jobs.kubernetes.external.membership import GangKey
from windlass.jobs.kubernetes.gang_dialects import POD_GROUPS

_DELAY_S, _INTERVAL_S = 2.0, 5.0
"""Seconds from a change to its first write, and between two writes. A state that lasts shorter is not written."""


class GroupStatusWriter:
    """Background writer of the status of PodGroups.

    `waits` returns why a group does not start, as a sentence; "" if it has started or nothing holds it back.
    """

    def __init__(
        self,
        connection: Connection,
        groups: Groups,
        waits: Callable[[GangKey], str],
        on_trouble: Callable[[str], None],
    ) -> None:
        self._connection, self._groups, self._waits = connection, groups, waits
        self._writer: CoalescingWriter[GangKey] = CoalescingWriter(
            self._write, on_trouble, delay=_DELAY_S, every=_INTERVAL_S
        )

    def mark(self, member: GangKey) -> None:
        """Schedules a write for a group that has changed."""
        if member.dialect in POD_GROUPS and self._groups.object_of(member) is not None:
            self._writer.mark(member)

    async def close(self) -> None:
        """Stops; pending changes are not written."""
        await self._writer.close()

    async def _write(self, member: GangKey) -> None:
        group, manifest = self._groups.get(member), self._groups.object_of(member)
        if group is None or manifest is None:
            return
        now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        counts = counts_of(list(group.pods.values()))
        patch = group_patch(member.dialect, manifest, counts, group.minimum, self._waits(member), now)
        about = {"uid": manifest["metadata"]["uid"]}
        if patch.status:
            await self._patch(member, {"metadata": about, "status": patch.status}, "status")
        if patch.annotations:
            await self._patch(member, {"metadata": {**about, "annotations": patch.annotations}}, "")

    async def _patch(self, member: GangKey, body: dict[str, Any], subresource: str) -> None:
        resource = RESOURCES[member.dialect]
        try:
            await self._connection.patch(resource, member.namespace, member.name, body, subresource=subresource)
        except ApiError as error:
            if not (error.is_missing or error.is_conflict):
                raise
