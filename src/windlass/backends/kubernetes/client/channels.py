"""Runs a command inside a pod: a websocket of numbered channels, the protocol of `pods/exec` and `pods/attach`.

Source: k8s.io/apimachinery/pkg/util/remotecommand, protocols v5.channel.k8s.io and v4.channel.k8s.io.
"""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Sequence
from typing import Any
from urllib.parse import urlencode

import aiohttp
from yarl import URL

from windlass.backends.kubernetes.client.access import Access
from windlass.backends.kubernetes.client.api_errors import ApiError, Outcome, Unreachable
from windlass.backends.kubernetes.client.transport import plain_message

STDIN, STDOUT, STDERR, STATUS, RESIZE = range(5)
_CLOSE = 255
"""Close message, followed by the channel that ends: version 5 only."""
_VERSIONS = ("v5.channel.k8s.io", "v4.channel.k8s.io")
_CONNECT_SECONDS, _ALIVE = 15.0, 20.0


class Channels:
    """A running command. Call `receive` until it returns None; the last message is on channel STATUS."""

    def __init__(self, socket: aiohttp.ClientWebSocketResponse) -> None:
        self._socket = socket

    async def send(self, channel: int, data: bytes) -> None:
        """Sends the command's input on STDIN; on RESIZE a terminal's size as JSON."""
        with contextlib.suppress(ConnectionError):  # the received messages tell how it ended
            await self._socket.send_bytes(bytes([channel]) + data)

    async def end_of_input(self) -> None:
        """Ends the command's input, where the server supports it."""
        if self._socket.protocol == _VERSIONS[0]:
            await self.send(_CLOSE, bytes([STDIN]))

    async def receive(self) -> tuple[int, bytes] | None:
        """Returns a channel and its data; None at the end. Raises Unreachable if the connection broke."""
        message: Any = await self._socket.receive()
        if message.type is aiohttp.WSMsgType.ERROR:
            raise Unreachable(f"the connection into the pod broke: {message.data}")
        if message.type not in (aiohttp.WSMsgType.BINARY, aiohttp.WSMsgType.TEXT):
            return None
        data = message.data if isinstance(message.data, bytes) else message.data.encode()
        return (data[0], data[1:]) if data else (STDOUT, b"")


@contextlib.asynccontextmanager
async def channels(access: Access, path: str, params: Sequence[tuple[str, str]]) -> AsyncIterator[Channels]:
    """Starts a command. Raises ApiError if the API server refuses, Unreachable, AccessError."""
    identity = await access.identify(False)
    headers = {"Authorization": identity.authorization} if identity.authorization else {}
    async with aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=None, connect=_CONNECT_SECONDS)) as session:
        try:
            socket = await session.ws_connect(
                URL(f"{access.server}{path}?{urlencode(params)}", encoded=True),
                protocols=_VERSIONS,
                headers=headers,
                heartbeat=_ALIVE,
                max_msg_size=0,
                ssl=identity.tls if identity.tls is not None else True,
                server_hostname=access.server_name,
                proxy=access.proxy,
            )
        except aiohttp.WSServerHandshakeError as error:
            raise ApiError(error.status, "", _refusal(error.status)) from None
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            raise Unreachable(f"no connection to {access.server}: {plain_message(error)}", Outcome.NOT_DONE) from error
        try:
            yield Channels(socket)
        finally:
            await socket.close()


def _refusal(status: int) -> str:
    """Returns the text for a refused handshake, whose body cannot be read."""
    words = {
        401: "the cluster does not know these credentials",
        403: "it is not allowed to run commands in this pod: that takes the verbs get and create for pods/exec",
        404: "the pod or its container is gone",
    }
    return words.get(status, f"the API server refused to run a command in the pod (HTTP {status})")
