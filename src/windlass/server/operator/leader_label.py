"""The label of the leader's pod, by which the Service of the queries selects it."""

from __future__ import annotations

import socket
from collections.abc import Callable

from windlass.backends.kubernetes.client.api_errors import ApiError
from windlass.backends.kubernetes.client.connection import Connection
from windlass.backends.kubernetes.client.resources import PODS
from windlass.backends.kubernetes.client.service_account import is_in_cluster
from windlass.backends.port import BackendError
from windlass.jobs.kubernetes.query_api import LEADER

_TIMEOUT_S = 2.0


async def mark_leader(connection: Connection, namespace: str, say: Callable[[str], None], *, leads: bool) -> None:
    """Sets or removes the label of this process' pod, if it runs in one. Queries wait if that fails, nothing else."""
    if not is_in_cluster():
        return
    patch = {"metadata": {"labels": {LEADER: "true" if leads else None}}}
    try:
        await connection.patch(PODS, namespace, socket.gethostname(), patch, within=_TIMEOUT_S)
    except BackendError as error:
        if not (isinstance(error, ApiError) and error.is_missing):
            say(f"cannot label the leader's pod: {error}")
