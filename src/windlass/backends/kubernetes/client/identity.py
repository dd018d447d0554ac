"""The address of an API server, and the identity of requests to it."""

from __future__ import annotations

import ssl
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from windlass.backends.errors import BackendError


class AccessError(BackendError):
    """No access to an API server: no configuration, an unusable one, or a failed plugin. The text names the fix."""


@dataclass(frozen=True, slots=True)
class Identity:
    """The identity of requests: a header, a client certificate inside the TLS context, or both."""

    authorization: str = ""
    """The Authorization header; "" for none."""
    tls: ssl.SSLContext | None = None
    """None for plain HTTP."""


@dataclass(frozen=True, slots=True)
class Access:
    """One API server and one user."""

    server: str
    """`https://host:port`, possibly with a path, without a trailing slash."""
    identify: Callable[[bool], Awaitable[Identity]]
    """Returns the current identity; True asks for a new one after the server refused the last. Raises AccessError."""
    namespace: str = "default"
    context: str = ""
    """Context of the kubeconfig; "" inside a cluster."""
    server_name: str | None = None
    """Name that the server's certificate is verified against, if it is not the address's."""
    proxy: str | None = None


def constant_access(server: str, *, authorization: str = "", tls: ssl.SSLContext | None = None) -> Access:
    """Returns access to an API server with constant credentials."""
    identity = Identity(authorization, tls)

    async def identify(_renew: bool) -> Identity:  # noqa: FBT001 - its only argument
        return identity

    return Access(server.rstrip("/"), identify)
