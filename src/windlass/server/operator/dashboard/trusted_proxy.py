"""Users named in headers by a proxy that has authenticated them, for example by OpenID Connect."""

from __future__ import annotations

import ssl
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from ipaddress import IPv4Network, IPv6Network, ip_address
from pathlib import Path
from typing import Any, TypeAlias

from starlette.datastructures import Headers

from windlass.backends.kubernetes.client.reviews import User
from windlass.backends.port import BackendError
from windlass.server.errors import ApiError, ErrorCode
from windlass.server.operator.bounded_http import CLIENT_NAME

Network: TypeAlias = IPv4Network | IPv6Network
_RESERVED = "system:"
"""Names that begin so belong to Kubernetes itself."""
_EVERY_USER = "system:authenticated"
_MAX_CHARS = 1_024
_MAX_GROUPS = 256


@dataclass(frozen=True, slots=True)
class TrustedProxy:
    """The proof that a connection comes from the proxy, and its headers. Each configured proof is required."""

    networks: Sequence[Network] = ()
    """Networks with the addresses of the proxy; empty: no proof by address."""
    authority: Path | None = None
    """PEM file of the authority that signs the proxy's client certificate; None: no proof by certificate."""
    names: Sequence[str] = ()
    """Accepted common names in that certificate; empty: all that the authority has signed."""
    user_header: str = "X-Remote-User"
    group_header: str = "X-Remote-Group"
    """Repeated, or with several groups by commas."""

    @property
    def is_configured(self) -> bool:
        """Whether any connection can come from a trusted proxy."""
        return bool(self.networks or self.authority)

    def accept_certificates(self, tls: ssl.SSLContext) -> None:
        """Makes a server verify client certificates of the proxy's authority. Raises BackendError."""
        if self.authority is None:
            return
        try:
            tls.load_verify_locations(cafile=self.authority)
        except (OSError, ssl.SSLError) as error:
            raise BackendError(f"cannot read the authority of the dashboard's proxy: {error}") from error
        tls.verify_mode = ssl.CERT_OPTIONAL

    def find_user(self, scope: Mapping[str, Any]) -> User | None:
        """The user that a trusted proxy names; None for any other connection. Raises ApiError NOT_ALLOWED."""
        if not self._is_trusted(scope):
            return None
        headers = Headers(raw=list(scope["headers"]))
        names = headers.getlist(self.user_header)
        if not names:
            return None
        groups = [group.strip() for text in headers.getlist(self.group_header) for group in text.split(",")]
        groups = [group for group in groups if group]
        _check(names, groups)
        return User(names[0], groups=(*groups, _EVERY_USER))

    def _is_trusted(self, scope: Mapping[str, Any]) -> bool:
        if not self.is_configured:
            return False
        if self.networks and not _is_within(scope.get("client"), self.networks):
            return False
        name = scope.get(CLIENT_NAME)
        return self.authority is None or (name is not None and (not self.names or name in self.names))


def _is_within(client: Sequence[Any] | None, networks: Sequence[Network]) -> bool:
    try:
        address = ip_address(client[0] if client else "")
    except ValueError:
        return False
    mapped = getattr(address, "ipv4_mapped", None)
    return any((mapped or address) in network for network in networks)


def _check(names: Sequence[str], groups: Sequence[str]) -> None:
    """Refuses headers that name no plain user. Raises ApiError NOT_ALLOWED."""
    if len(names) != 1 or not 0 < len(names[0]) <= _MAX_CHARS or len(groups) > _MAX_GROUPS:
        message = "the proxy does not name one user"
        raise ApiError(ErrorCode.NOT_ALLOWED, message, "make the proxy replace the headers that its clients send")
    reserved = next((each for each in (*names, *groups) if each.startswith(_RESERVED)), "")
    if reserved:
        message = f"the proxy names {reserved[:_MAX_CHARS]}, and names that begin with {_RESERVED} are Kubernetes' own"
        raise ApiError(ErrorCode.NOT_ALLOWED, message, "add a prefix to the names and groups of the identity provider")
