"""Creates identities from the library's findings: a token, certificate files, or both."""

from __future__ import annotations

import ssl
from pathlib import Path
from types import SimpleNamespace
from typing import Any, TypeAlias

from windlass.backends.kubernetes.client.identity import Identity

_Certificates: TypeAlias = tuple[bytes | None, bytes | None, bytes | None, bool]
"""The authority's certificate, the client's certificate, its key, and whether the server is verified by the first."""


def empty_settings() -> SimpleNamespace:
    """Returns an empty object into which the library writes its findings, in place of its own client's settings."""
    return SimpleNamespace(
        host="",
        api_key={},
        ssl_ca_cert=None,
        cert_file=None,
        key_file=None,
        verify_ssl=True,
        tls_server_name=None,
        proxy=None,
    )


class IdentityCache:
    """Cache of identities, which reuses unchanged parts: a new TLS context would mean new connections."""

    def __init__(self) -> None:
        self._identity = Identity()
        self._certificates: _Certificates | None = None

    def identity(self, found: Any) -> Identity:
        """Returns the identity that the library found. Raises OSError (or ssl.SSLError) for unusable certificates."""
        authorization = str(found.api_key.get("BearerToken", "")).strip()
        tls = self._tls(found)
        if (authorization, tls) != (self._identity.authorization, self._identity.tls):
            self._identity = Identity(authorization, tls)
        return self._identity

    def _tls(self, found: Any) -> ssl.SSLContext | None:
        if not found.host.startswith("https"):
            return None
        certificates = (_read(found.ssl_ca_cert), _read(found.cert_file), _read(found.key_file), bool(found.verify_ssl))
        if certificates != self._certificates or self._identity.tls is None:
            self._certificates = certificates
            return tls_context(found.ssl_ca_cert, found.cert_file, found.key_file, verify=certificates[3])
        return self._identity.tls


def tls_context(authority: str | None, certificate: str | None, key: str | None, *, verify: bool) -> ssl.SSLContext:
    """Creates a TLS context from files; without an authority it trusts the system's."""
    made = ssl.create_default_context(cafile=authority)
    # A cluster's own authority often lacks what the strict check requires, the default since Python 3.13.
    made.verify_flags &= ~ssl.VERIFY_X509_STRICT
    if not verify:
        made.check_hostname = False
        made.verify_mode = ssl.CERT_NONE
    if certificate:
        made.load_cert_chain(certificate, key)
    return made


def _read(file: str | None) -> bytes | None:
    return Path(file).read_bytes() if file else None
