"""Client of the leading operator's API, found by its Lease and reached through the API server's pod proxy.

Requests use the user's own permissions.
"""

from __future__ import annotations

import json
from typing import Any
from urllib.parse import quote

from windlass.backends.kubernetes.client import api_errors
from windlass.backends.kubernetes.client.connection import Connection
from windlass.backends.kubernetes.client.resources import LEASES, PODS
from windlass.backends.kubernetes.client.resources import path as resource_path
from windlass.cli.kubernetes.api_session import ApiSession, translate_error
from windlass.server.errors import ApiError, ErrorCode, error_from_json

Json = dict[str, Any]
LEASE = "windlass-system/windlass-operator"
ADDRESS = "windlass.dev/address"
"""Annotation of the Lease: the URL of a leader that runs outside the cluster."""
PORT = 8080
_TIMEOUT_S = 5.0
_MAX_ERROR_CHARS = 200
"""Length limit of an error of the proxy in messages."""
_INSTALL = "see: windlass operator check; install it with: windlass operator install"


class OperatorClient:
    """A client of the operator's API. `where`: NAMESPACE/LEASE, or its URL."""

    def __init__(self, session: ApiSession, where: str = "") -> None:
        self._session = session
        self._where = where or LEASE
        self._apart: Connection | None = None
        """Connection to a leader that runs outside the cluster."""
        self._base: str | None = None

    def get(self, path: str, filters: Json | None = None) -> Json:
        """Sends a GET request. Raises ApiError: that of the operator, or NO_DAEMON if none answers."""
        params = {key: str(value) for key, value in (filters or {}).items() if value not in (None, "", [])}
        try:
            return self._get(path, params)
        except ApiError as error:
            if error.code is not ErrorCode.NO_DAEMON or self._base is None:
                raise
        self._base = None  # the Lease may name another leader by now
        return self._get(path, params)

    def _get(self, path: str, params: dict[str, str]) -> Json:
        if self._base is None:
            self._base = self._find()
        try:
            answer = self._session.run(self._send(self._base + quote(path), params))
        except _RequestError as failed:
            raise failed.error from None
        content = json.loads(answer)
        return content if isinstance(content, dict) else {}

    async def _send(self, path: str, params: dict[str, str]) -> bytes:
        try:
            connection = self._apart or self._session.connection
            return await connection.request("GET", path, params=params, within=_TIMEOUT_S)
        except api_errors.ApiError as error:
            raise _RequestError(_operator_error(error)) from None
        except api_errors.Unreachable as error:
            raise _RequestError(
                ApiError(ErrorCode.NO_DAEMON, f"the operator does not answer: {error}", _INSTALL)
            ) from None

    def _find(self) -> str:
        """Returns the prefix of all paths. Raises ApiError: NO_DAEMON without a leader, NOT_ALLOWED."""
        if "://" in self._where:
            return self._connect(self._where)
        namespace, _, name = self._where.rpartition("/")
        try:
            lease = self._session.run(self._session.connection.get(LEASES, namespace or "windlass-system", name))
        except ApiError as error:
            if error.code is not ErrorCode.NO_SUCH_JOB:
                raise
            raise _no_operator(f"this cluster has no Lease {self._where}: no Windlass operator runs here") from None
        address = (lease["metadata"].get("annotations") or {}).get(ADDRESS)
        if address:
            return self._connect(address)
        holder = str((lease.get("spec") or {}).get("holderIdentity") or "")
        if not holder:
            raise _no_operator(f"no operator holds the Lease {self._where} now")
        pod = f"http:{holder.partition('_')[0]}:{PORT}"
        return f"{resource_path(PODS, lease['metadata']['namespace'], pod)}/proxy"

    def _connect(self, address: str) -> str:
        self._apart = self._session.connect_to(address)
        return ""


class _RequestError(Exception):
    """Carries an ApiError past the translation of the API server's own errors in `ApiSession.run`."""

    def __init__(self, error: ApiError) -> None:
        super().__init__()
        self.error = error


def _operator_error(error: api_errors.ApiError) -> ApiError:
    """Returns the operator's own error if it answered, else that of the API server's proxy."""
    try:
        content = json.loads(error.body)
    except ValueError:
        content = None
    if isinstance(content, dict) and "error" in content:
        return error_from_json(content, error.status)
    if error.status in (404, 502, 503, 504):
        return _no_operator(f"the operator does not answer: {' '.join(str(error).split())[:_MAX_ERROR_CHARS]}")
    return translate_error(error)


def _no_operator(message: str) -> ApiError:
    return ApiError(ErrorCode.NO_DAEMON, message, _INSTALL)
