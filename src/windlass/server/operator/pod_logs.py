"""The last lines of a pod's log, asked of the API server."""

from __future__ import annotations

from windlass.server.operator.pod_tasks import told_container
from windlass.worlds.kubernetes.client.connection import Connection
from windlass.worlds.kubernetes.client.objects import Pod
from windlass.worlds.kubernetes.client.refusals import ApiError
from windlass.worlds.kubernetes.client.resources import PODS, path
from windlass.worlds.trouble import WorldError

LINES = 500
_WITHIN = 10.0
"""Seconds. A kubelet that does not answer by then may be gone."""


async def last_lines(connection: Connection, pod: Pod, most: int) -> tuple[str, str]:
    """At most `most` bytes of them; and why there are none, "" if there are."""
    where = path(PODS, pod.metadata.namespace, pod.metadata.name, "log")
    asked = {"container": told_container(pod), "tailLines": str(LINES), "limitBytes": str(most)}
    try:
        body = await connection.request("GET", where, params=asked, within=_WITHIN)
    except ApiError as error:
        if error.is_missing:
            return "", "the pod was gone before its log could be read"
        return "", f"its log could not be read: {error}"
    except WorldError as error:
        return "", f"its log could not be read: {error}"
    return body.decode("utf-8", "replace"), ""
