"""Keys and certificates: an authority, and the pairs that it signs."""

from __future__ import annotations

import ipaddress
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

_A_DAY = timedelta(days=1)
_LIFE = timedelta(days=30)


@dataclass(frozen=True, slots=True)
class Pair:
    """Two PEM files."""

    certificate: Path
    key: Path


@dataclass(frozen=True, slots=True)
class Authority:
    """A certificate authority. Others trust `pair.certificate`."""

    pair: Pair
    key: ec.EllipticCurvePrivateKey
    name: x509.Name

    def server(self, folder: Path, name: str, addresses: Sequence[str]) -> Pair:
        """Makes a server's pair for host names and IP addresses."""
        names = x509.SubjectAlternativeName([_general(address) for address in addresses])
        return self._sign(folder, name, _subject(name, ()), ExtendedKeyUsageOID.SERVER_AUTH, names)

    def client(self, folder: Path, user: str, groups: Sequence[str] = ()) -> Pair:
        """Makes the pair by which an API server identifies a user and its groups."""
        file = user.replace(":", "-").replace("/", "-")
        return self._sign(folder, file, _subject(user, groups), ExtendedKeyUsageOID.CLIENT_AUTH)

    def _sign(
        self,
        folder: Path,
        file: str,
        subject: x509.Name,
        usage: x509.ObjectIdentifier,
        *more: x509.ExtensionType,
    ) -> Pair:
        key = ec.generate_private_key(ec.SECP256R1())
        builder = _certificate(subject, self.name, key.public_key())
        builder = builder.add_extension(x509.ExtendedKeyUsage([usage]), critical=False)
        builder = builder.add_extension(
            x509.AuthorityKeyIdentifier.from_issuer_public_key(self.key.public_key()), critical=False
        )
        for extension in more:
            builder = builder.add_extension(extension, critical=False)
        return _write(folder, file, key, builder.sign(self.key, hashes.SHA256()))


def make_authority(folder: Path, file: str = "ca") -> Authority:
    """Makes an authority with a key of its own."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = _subject(f"windlass-{file}", ())
    builder = _certificate(name, name, key.public_key())
    builder = builder.add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
    builder = builder.add_extension(_SIGNS, critical=True)
    builder = builder.add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
    return Authority(_write(folder, file, key, builder.sign(key, hashes.SHA256())), key, name)


def make_token_key(folder: Path) -> Pair:
    """Makes the key pair that signs service account tokens; its public half takes the certificate's place."""
    key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    private, public = folder / "tokens.key", folder / "tokens.pub"
    private.write_bytes(_pem(key))
    form = serialization.PublicFormat.SubjectPublicKeyInfo
    public.write_bytes(key.public_key().public_bytes(serialization.Encoding.PEM, form))
    return Pair(public, private)


_SIGNS = x509.KeyUsage(
    digital_signature=True,
    key_cert_sign=True,
    crl_sign=True,
    content_commitment=False,
    key_encipherment=False,
    data_encipherment=False,
    key_agreement=False,
    encipher_only=False,
    decipher_only=False,
)


def _subject(user: str, groups: Sequence[str]) -> x509.Name:
    """Returns a subject: Kubernetes reads the user from the common name, and a group from each organization."""
    organizations = [x509.NameAttribute(NameOID.ORGANIZATION_NAME, group) for group in groups]
    return x509.Name([*organizations, x509.NameAttribute(NameOID.COMMON_NAME, user)])


def _certificate(subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePublicKey) -> x509.CertificateBuilder:
    now = datetime.now(UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - _A_DAY)
        .not_valid_after(now + _LIFE)
    )


def _general(address: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(address))
    except ValueError:
        return x509.DNSName(address)


def _write(folder: Path, file: str, key: ec.EllipticCurvePrivateKey, certificate: x509.Certificate) -> Pair:
    pair = Pair(folder / f"{file}.crt", folder / f"{file}.key")
    pair.certificate.write_bytes(certificate.public_bytes(serialization.Encoding.PEM))
    pair.key.write_bytes(_pem(key))
    pair.key.chmod(0o600)
    return pair


def _pem(key: ec.EllipticCurvePrivateKey | rsa.RSAPrivateKey) -> bytes:
    form, encoding = serialization.PrivateFormat.PKCS8, serialization.Encoding.PEM
    return key.private_bytes(encoding, form, serialization.NoEncryption())
