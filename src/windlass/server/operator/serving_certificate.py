"""The certificate that the operator makes and keeps in a Secret: of the port for agents, and of that for queries.

It is its own authority. The APIService names it in `caBundle`, and pods with agents in a variable, so that the API
server and agents connect to nothing else.
"""

from __future__ import annotations

import base64
import ssl
import tempfile
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from windlass import wire
from windlass.backends.kubernetes.client.api_errors import ApiError
from windlass.backends.kubernetes.client.connection import Connection, find_object
from windlass.backends.kubernetes.client.resources import API_SERVICES, SECRETS
from windlass.jobs.kubernetes.query_api import API_SERVICE, CERTIFICATE, SERVICE

_LIFE = timedelta(days=3650)
_CERTIFICATE_KEY, _PRIVATE_KEY = "tls.crt", "tls.key"


def make_certificate(names: Sequence[str], now: datetime) -> tuple[bytes, bytes]:
    """A self-signed certificate for DNS names, and its private key, as PEM."""
    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, names[0][:64])])
    extensions: list[tuple[x509.ExtensionType, bool]] = [
        (x509.BasicConstraints(ca=True, path_length=0), True),
        (x509.SubjectAlternativeName([x509.DNSName(each) for each in names]), False),
        (x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), False),
        (x509.SubjectKeyIdentifier.from_public_key(key.public_key()), False),
    ]
    builder = x509.CertificateBuilder().subject_name(subject).issuer_name(subject).public_key(key.public_key())
    builder = builder.serial_number(x509.random_serial_number())
    builder = builder.not_valid_before(now - timedelta(hours=1)).not_valid_after(now + _LIFE)
    for extension, critical in extensions:
        builder = builder.add_extension(extension, critical=critical)
    pem, plain = serialization.Encoding.PEM, serialization.NoEncryption()
    private = key.private_bytes(pem, serialization.PrivateFormat.PKCS8, plain)
    return builder.sign(key, hashes.SHA256()).public_bytes(pem), private


async def own_certificate(connection: Connection, namespace: str) -> tuple[bytes, bytes]:
    """The certificate and key in the operator's Secret, which the first replica makes. Raises BackendError."""
    if (existing := await find_object(connection, SECRETS, namespace, CERTIFICATE)) is not None:
        return _read(existing)
    name = f"{SERVICE}.{namespace}.svc"
    certificate, key = make_certificate([name, f"{name}.cluster.local", wire.CONTROLLER_NAME], datetime.now(UTC))
    texts = {_CERTIFICATE_KEY: certificate.decode(), _PRIVATE_KEY: key.decode()}
    about = {"name": CERTIFICATE, "namespace": namespace}
    body = {"apiVersion": "v1", "kind": "Secret", "metadata": about, "type": "kubernetes.io/tls", "stringData": texts}
    try:
        await connection.create(SECRETS, body)
    except ApiError as error:
        if error.reason != "AlreadyExists":
            raise
    return _read(await connection.get(SECRETS, namespace, CERTIFICATE))


def _read(secret: Mapping[str, Any]) -> tuple[bytes, bytes]:
    data = secret["data"]
    return base64.b64decode(data[_CERTIFICATE_KEY]), base64.b64decode(data[_PRIVATE_KEY])


async def publish_authority(connection: Connection, certificate: bytes) -> None:
    """Writes the certificate into the APIService, if there is one. Raises BackendError."""
    bundle = base64.b64encode(certificate).decode()
    existing = await find_object(connection, API_SERVICES, None, API_SERVICE)
    if existing is not None and existing["spec"].get("caBundle") != bundle:
        await connection.patch(API_SERVICES, None, API_SERVICE, {"spec": {"caBundle": bundle}})


def server_context(certificate: bytes, key: bytes) -> ssl.SSLContext:
    """A TLS context for a server with this certificate. It asks for no client certificates yet."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    with tempfile.TemporaryDirectory() as folder:  # the ssl module reads files only
        files = Path(folder, _CERTIFICATE_KEY), Path(folder, _PRIVATE_KEY)
        for file, content in zip(files, (certificate, key), strict=True):
            file.touch(0o600)
            file.write_bytes(content)
        context.load_cert_chain(*files)
    return context
