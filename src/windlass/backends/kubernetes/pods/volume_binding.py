"""Tells claims whose volumes are provisioned late which node their first pod goes to, before the pod is bound."""

from __future__ import annotations

from collections.abc import Iterable

from windlass.backends.kubernetes.client.api_errors import ApiError
from windlass.backends.kubernetes.client.connection import Connection
from windlass.backends.kubernetes.client.resources import CLAIMS
from windlass.backends.kubernetes.cluster.volumes import SELECTED_NODE


async def choose_volumes(connection: Connection, namespace: str, claims: Iterable[tuple[str, str]]) -> None:
    """Annotate claims, each with its node. A claim that does not exist keeps its pods waiting, and they show why.

    Raises ApiError, Unreachable, NotLeader.
    """
    for claim, node in claims:
        body = {"metadata": {"annotations": {SELECTED_NODE: node}}}
        try:
            await connection.patch(CLAIMS, namespace, claim, body)
        except ApiError as error:
            if not error.is_missing:
                raise
