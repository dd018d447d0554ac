"""The image that the operator itself runs from, which also brings the agent to pods that ask for it."""

from __future__ import annotations

import socket
from dataclasses import replace

from windlass.backends.kubernetes.client.api_errors import ApiError
from windlass.backends.kubernetes.client.connection import Connection
from windlass.backends.kubernetes.client.resources import PODS
from windlass.backends.kubernetes.settings import BackendSettings
from windlass.jobs.kubernetes.settings import AGENT_IMAGE

_CONTAINER = "operator"


async def with_operator_image(settings: BackendSettings, connection: Connection, namespace: str) -> BackendSettings:
    """The settings with it, where none is named and this process is a pod's: however that was installed.

    Raises WorldError of a cluster that cannot be asked.
    """
    if settings.kinds.agent_image:
        return settings
    image = await _own_image(connection, namespace) or AGENT_IMAGE
    return replace(settings, kinds=replace(settings.kinds, agent_image=image))


async def _own_image(connection: Connection, namespace: str) -> str:
    try:
        pod = await connection.get(PODS, namespace, socket.gethostname())
    except ApiError as error:
        if error.is_missing:  # it is no pod
            return ""
        raise
    return next((str(each["image"]) for each in pod["spec"]["containers"] if each["name"] == _CONTAINER), "")
