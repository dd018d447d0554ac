"""The operator's own image, which also brings the agent to pods that request it."""

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
    """Settings with the image of this process' own pod, if the settings name no image for the agent.

    Outside of a pod it is the released image. Raises BackendError if the cluster does not answer.
    """
    if settings.kinds.agent_image:
        return settings
    image = await _own_image(connection, namespace) or AGENT_IMAGE
    return replace(settings, kinds=replace(settings.kinds, agent_image=image))


async def _own_image(connection: Connection, namespace: str) -> str:
    try:
        pod = await connection.get(PODS, namespace, socket.gethostname())
    except ApiError as error:
        if error.is_missing:  # this process runs outside of a pod
            return ""
        raise
    return next((str(each["image"]) for each in pod["spec"]["containers"] if each["name"] == _CONTAINER), "")
