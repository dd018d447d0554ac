"""Where an API server is, and as whom it is asked: what the rest of the room sees of that."""

from __future__ import annotations

import ssl
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from windlass.backends.errors import BackendError


class AccessError(BackendError):
    """No way to an API server: no configuration, an unusable one, or a plugin that failed. Says how to mend it."""


@dataclass(frozen=True, slots=True)
class Identity:
    """As whom requests are made: a header, a client certificate inside the TLS context, or both."""

    authorization: str = ""
    """The header's value; "" for none."""
    tls: ssl.SSLContext | None = None
    """None for plain HTTP."""


@dataclass(frozen=True, slots=True)
class Access:
    """One API server, as one user."""

    server: str
    """`https://host:port`, possibly with a path; without a slash at the end."""
    identify: Callable[[bool], Awaitable[Identity]]
    """The identity as it is now; True asks for a new one, as the server did not take the last. Raises AccessError."""
    namespace: str = "default"
    context: str = ""
    """The kubeconfig's context; "" inside a cluster."""
    server_name: str | None = None
    """The name that the server's certificate is held to, if it is not the address's."""
    proxy: str | None = None


def plain(server: str, *, authorization: str = "", tls: ssl.SSLContext | None = None) -> Access:
    """An API server whose credentials never change."""
    identity = Identity(authorization, tls)

    async def identify(_renew: bool) -> Identity:  # noqa: FBT001 - the one thing it is told
        return identity

    return Access(server.rstrip("/"), identify)
