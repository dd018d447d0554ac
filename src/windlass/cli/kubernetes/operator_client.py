"""Whoever leads in a cluster, by its Lease, and its API: asked through the API server, with the user's own rights."""

from __future__ import annotations

import json
from typing import Any
from urllib.parse import quote

from windlass.backends.kubernetes.client import api_errors
from windlass.backends.kubernetes.client.connection import Connection
from windlass.backends.kubernetes.client.resources import LEASES, PODS, path
from windlass.cli.kubernetes.api_session import ApiSession, translate_error
from windlass.server.errors import ApiError, Code, error_from_json

Json = dict[str, Any]
LEASE = "windlass-system/windlass-operator"
ADDRESS = "windlass.dev/address"
"""An annotation of the Lease: where the leader answers, if it runs outside of the cluster."""
PORT = 8080
_PATIENCE = 5.0
_SHOWN = 200
"""Characters of what a proxy says in the operator's place."""
_INSTALL = "see: windlass operator check; install it with: windlass operator install"


class OperatorClient:
    """The operator's API. `where`: NAMESPACE/LEASE, or the URL at which it answers."""

    def __init__(self, reach: ApiSession, where: str = "") -> None:
        self._reach = reach
        self._where = where or LEASE
        self._apart: Connection | None = None
        """To a leader that runs outside of the cluster."""
        self._base: str | None = None

    def get(self, asked: str, filters: Json | None = None) -> Json:
        """One answer. Raises ApiError: the operator's own, or NO_DAEMON if none answers."""
        given = {key: str(value) for key, value in (filters or {}).items() if value not in (None, "", [])}
        try:
            return self._ask(asked, given)
        except ApiError as error:
            if error.code is not Code.NO_DAEMON or self._base is None:
                raise
        self._base = None  # the Lease may name another one by now
        return self._ask(asked, given)

    def _ask(self, asked: str, given: dict[str, str]) -> Json:
        if self._base is None:
            self._base = self._find()
        try:
            answer = self._reach.do(self._send(self._base + quote(asked), given))
        except _Answered as answered:
            raise answered.error from None
        content = json.loads(answer)
        return content if isinstance(content, dict) else {}

    async def _send(self, path: str, given: dict[str, str]) -> bytes:
        try:
            connection = self._apart or self._reach.connection
            return await connection.request("GET", path, params=given, within=_PATIENCE)
        except api_errors.ApiError as error:
            raise _Answered(_meant(error)) from None
        except api_errors.Unreachable as error:
            raise _Answered(ApiError(Code.NO_DAEMON, f"the operator does not answer: {error}", _INSTALL)) from None

    def _find(self) -> str:
        """What stands before each path. Raises ApiError NO_DAEMON if nobody leads, NOT_ALLOWED."""
        if "://" in self._where:
            return self._outside(self._where)
        namespace, _, name = self._where.rpartition("/")
        try:
            lease = self._reach.do(self._reach.connection.get(LEASES, namespace or "windlass-system", name))
        except ApiError as error:
            if error.code is not Code.NO_SUCH_JOB:
                raise
            raise _nobody(f"this cluster has no Lease {self._where}: no Windlass operator runs here") from None
        address = (lease["metadata"].get("annotations") or {}).get(ADDRESS)
        if address:
            return self._outside(address)
        holder = str((lease.get("spec") or {}).get("holderIdentity") or "")
        if not holder:
            raise _nobody(f"no operator holds the Lease {self._where} now")
        pod = f"http:{holder.partition('_')[0]}:{PORT}"
        return f"{path(PODS, lease['metadata']['namespace'], pod)}/proxy"

    def _outside(self, address: str) -> str:
        self._apart = self._reach.other(address)
        return ""


class _Answered(Exception):  # noqa: N818 - never leaves this module
    """What became of a request, past the words that the API server's own refusals get."""

    def __init__(self, error: ApiError) -> None:
        super().__init__()
        self.error = error


def _meant(error: api_errors.ApiError) -> ApiError:
    """The operator's own words if it answered, else those of the API server before it."""
    try:
        content = json.loads(error.body)
    except ValueError:
        content = None
    if isinstance(content, dict) and "error" in content:
        return error_from_json(content, error.status)
    if error.status in (404, 502, 503, 504):
        return _nobody(f"the operator does not answer: {' '.join(str(error).split())[:_SHOWN]}")
    return translate_error(error)


def _nobody(message: str) -> ApiError:
    return ApiError(Code.NO_DAEMON, message, _INSTALL)
