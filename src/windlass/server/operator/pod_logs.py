"""The last lines of a pod's log, asked of the API server."""

from __future__ import annotations

from windlass.backends.errors import BackendError
from windlass.backends.kubernetes.client.api_errors import ApiError
from windlass.backends.kubernetes.client.connection import Connection
from windlass.backends.kubernetes.client.objects import Pod
from windlass.backends.kubernetes.client.resources import PODS, path
from windlass.server.operator.pod_tasks import choose_container

LINES = 500
_WITHIN = 10.0
"""Seconds. A kubelet that does not answer by then may be gone."""


async def last_lines(connection: Connection, pod: Pod, most: int) -> tuple[str, str]:
    """At most `most` bytes of them; and why there are none, "" if there are."""
    where = path(PODS, pod.metadata.namespace, pod.metadata.name, "log")
    asked = {"container": choose_container(pod), "tailLines": str(LINES), "limitBytes": str(most)}
    try:
        body = await connection.request("GET", where, params=asked, within=_WITHIN)
    except ApiError as error:
        if error.is_missing:
            return "", "the pod was gone before its log could be read"
        return "", f"its log could not be read: {error}"
    except BackendError as error:
        return "", f"its log could not be read: {error}"
    return body.decode("utf-8", "replace"), ""
