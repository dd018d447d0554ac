"""Blocking requests to the cluster of the workshop, by a kubeconfig. Imports the Kubernetes libraries when called."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from windlass.labs.errors import LabStateError

NO_CLUSTER = "the cluster does not answer"
START_CLUSTER = "windlass lab cluster up"
_TIMEOUT_S = 10.0
_NOT_FOUND, _CONFLICT = 404, 409


def get_object(kubeconfig: Path, path: str) -> Any:
    """Returns the answer to GET; None for status 404. Raises LabStateError."""
    return _request(kubeconfig, "GET", path)


def get_text(kubeconfig: Path, path: str) -> str | None:
    """Returns the answer to GET as text, such as the log of a pod; None for status 404. Raises LabStateError."""
    answer = _exchange(kubeconfig, "GET", path)
    return None if answer is None else answer.decode(errors="replace")


def create_object(kubeconfig: Path, path: str, body: Mapping[str, Any]) -> bool:
    """Creates an object and returns True; False if it exists already. Raises LabStateError."""
    return _request(kubeconfig, "POST", path, body) is not None


def delete_object(kubeconfig: Path, path: str) -> None:
    """Deletes an object; one that does not exist is no error. Raises LabStateError."""
    _request(kubeconfig, "DELETE", path)


def _request(kubeconfig: Path, method: str, path: str, body: Mapping[str, Any] | None = None) -> Any:
    answer = _exchange(kubeconfig, method, path, body)
    try:
        return None if answer is None else json.loads(answer)
    except ValueError as error:
        raise LabStateError(f"{NO_CLUSTER} ({error})\n{START_CLUSTER}") from None


def _exchange(kubeconfig: Path, method: str, path: str, body: Mapping[str, Any] | None = None) -> bytes | None:
    from windlass.backends.kubernetes.client.access import AccessError, from_kubeconfig  # noqa: PLC0415 - of clusters alone
    from windlass.backends.kubernetes.client.api_errors import ApiError, Unreachable  # noqa: PLC0415
    from windlass.backends.kubernetes.client.connection import Connection  # noqa: PLC0415

    async def exchange() -> bytes:
        access = from_kubeconfig(str(kubeconfig))
        async with Connection(access, within=_TIMEOUT_S, attempt=_TIMEOUT_S) as connection:
            return await connection.request(method, path, body=body)

    if not kubeconfig.is_file():
        raise LabStateError(f"there is no cluster of the workshop\n{START_CLUSTER}")
    try:
        return asyncio.run(exchange())
    except ApiError as error:
        if error.status in (_NOT_FOUND, _CONFLICT):
            return None
        raise LabStateError(f"the cluster refuses {method} {path}: {error}\n{START_CLUSTER}") from None
    except (Unreachable, AccessError, ValueError) as error:
        raise LabStateError(f"{NO_CLUSTER} ({error})\n{START_CLUSTER}") from None
