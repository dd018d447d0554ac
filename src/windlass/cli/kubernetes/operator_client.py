"""Client of the leading operator's queries, an aggregated API of the cluster.

Requests use the user's own credentials and permissions. A leader outside of the cluster is asked at its address.
"""

from __future__ import annotations

import json
from typing import Any
from urllib.parse import quote

from windlass.backends.kubernetes.client import api_errors
from windlass.backends.kubernetes.client.connection import Connection
from windlass.backends.kubernetes.client.resources import LEASES
from windlass.cli.kubernetes.api_session import ApiSession, translate_error
from windlass.jobs.kubernetes import query_api
from windlass.jobs.kubernetes.labels import LEADER_ADDRESS
from windlass.jobs.kubernetes.operator_names import NAMESPACE
from windlass.server.errors import ApiError, ErrorCode, error_from_json

Json = dict[str, Any]
_TIMEOUT_S = 5.0
_MAX_ERROR_CHARS = 200
"""Length limit of an error of the proxy in messages."""
_ASK_FOR_VIEW = "ask for a RoleBinding to the ClusterRole view in the namespace of the job, or name your own with -n"
_INSTALL = "see: windlass operator check; install it with: windlass operator install"


class OperatorClient:
    """A client of the operator's queries. `where`: NAMESPACE/LEASE or URL of a leader outside of the cluster."""

    def __init__(self, session: ApiSession, where: str = "") -> None:
        self._session = session
        self._where = where
        self._apart: Connection | None = None
        """Connection to a leader that runs outside the cluster."""
        self._is_found = False

    def get(self, path: str, filters: Json | None = None, namespace: str | None = None) -> Json:
        """Sends a GET request. Raises ApiError: that of the operator, or NO_DAEMON if none answers.

        `path`: one of the daemon's API; `namespace`: the only one whose jobs a listing is to contain.
        """
        params = {key: str(value) for key, value in (filters or {}).items() if value not in (None, "", [])}
        try:
            return self._get(path, params, namespace)
        except ApiError as error:
            if error.code is not ErrorCode.NO_DAEMON or not self._is_found:
                raise
        self._is_found = False  # the Lease may name another leader by now
        return self._get(path, params, namespace)

    def _get(self, path: str, params: dict[str, str], namespace: str | None) -> Json:
        if not self._is_found:
            self._apart = self._find()
            self._is_found = True
        where = quote(path) if self._apart else query_path(path, namespace)
        answer = self._session.run(self._send(where, params))
        if isinstance(answer, ApiError):
            try:
                raise answer
            finally:
                del answer  # its traceback has this frame: a cycle would keep the session open
        content = json.loads(answer)
        return content if isinstance(content, dict) else {}

    async def _send(self, path: str, params: dict[str, str]) -> bytes | ApiError:
        """Sends a request. Returns errors of the operator: those that are raised get another translation."""
        try:
            connection = self._apart or self._session.connection
            return await connection.request("GET", path, params=params, within=_TIMEOUT_S)
        except api_errors.ApiError as error:
            return _operator_error(error)
        except api_errors.Unreachable as error:
            return ApiError(ErrorCode.NO_DAEMON, f"the operator does not answer: {error}", _INSTALL)

    def _find(self) -> Connection | None:
        """A connection to a leader outside of the cluster; None: the API of the cluster. Raises ApiError NO_DAEMON."""
        if not self._where:
            return None
        if "://" in self._where:
            return self._session.connect_to(self._where)
        namespace, _, name = self._where.rpartition("/")
        try:
            lease = self._session.run(self._session.connection.get(LEASES, namespace or NAMESPACE, name))
        except ApiError as error:
            if error.code is ErrorCode.NOT_ALLOWED:
                return None
            if error.code is not ErrorCode.NO_SUCH_JOB:
                raise
            raise _no_operator(f"this cluster has no Lease {self._where}: no Windlass operator runs here") from None
        address = (lease["metadata"].get("annotations") or {}).get(LEADER_ADDRESS)
        return self._session.connect_to(address) if address else None


def query_path(path: str, namespace: str | None) -> str:
    """The path in the aggregated API of a path of the daemon's API."""
    _, _, resource, *rest = path.split("/")
    within = f"{query_api.PREFIX}/namespaces/"
    if resource == "snapshot":
        return f"{query_api.PREFIX}/{query_api.SNAPSHOTS}/current"
    if resource == "prospects":
        return f"{within}{quote(rest[0])}/jobs/{quote(':'.join(rest[1:]), ':')}/prospect"
    if resource == "jobs" and rest:
        part = {"why": "/why", "logs": "/log"}.get(rest[-1], "") if len(rest) > 2 else ""
        name = rest[1:-1] if part else rest[1:]
        return f"{within}{quote(rest[0])}/jobs/{quote(':'.join(name), ':')}{part}"
    renamed = {"ping": "status", "why": "reasons"}.get(resource, resource)
    is_of_jobs = renamed in query_api.OF_JOBS and namespace is not None
    return f"{within}{quote(namespace or '')}/{renamed}" if is_of_jobs else f"{query_api.PREFIX}/{renamed}"


def _operator_error(error: api_errors.ApiError) -> ApiError:
    """Returns the operator's own error if it answered, else that of the API server's proxy."""
    try:
        content = json.loads(error.body)
    except ValueError:
        content = None
    if isinstance(content, dict) and "error" in content:
        return error_from_json(content, error.status)
    if error.status == 404:
        return _no_operator(f"this cluster has no API {query_api.API_SERVICE}: no Windlass operator runs here")
    if error.status in (502, 503, 504):
        return _no_operator(f"the operator does not answer: {' '.join(str(error).split())[:_MAX_ERROR_CHARS]}")
    refusal = translate_error(error)
    if refusal.code is ErrorCode.NOT_ALLOWED and not refusal.fix:
        refusal.fix = _ASK_FOR_VIEW
    return refusal


def _no_operator(message: str) -> ApiError:
    return ApiError(ErrorCode.NO_DAEMON, message, _INSTALL)
