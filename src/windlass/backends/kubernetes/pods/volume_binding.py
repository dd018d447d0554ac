"""Annotates claims of late-provisioned volumes with the node of their first pod, before the pod is bound."""

from __future__ import annotations

from collections.abc import Iterable

from windlass.backends.kubernetes.client.api_errors import ApiError
from windlass.backends.kubernetes.client.connection import Connection
from windlass.backends.kubernetes.client.resources import CLAIMS
from windlass.backends.kubernetes.cluster.volumes import SELECTED_NODE


async def choose_volumes(connection: Connection, namespace: str, claims: Iterable[tuple[str, str]]) -> None:
    """Annotates claims, each with its node. A missing claim is skipped: its pods wait, and their status shows why.

    Raises ApiError, Unreachable, NotLeader.
    """
    for claim, node in claims:
        body = {"metadata": {"annotations": {SELECTED_NODE: node}}}
        try:
            await connection.patch(CLAIMS, namespace, claim, body)
        except ApiError as error:
            if not error.is_missing:
                raise
