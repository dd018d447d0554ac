"""Kubeconfig files: the address of an API server, and the user's credentials."""

from __future__ import annotations

import ssl
from dataclasses import dataclass
from pathlib import Path

import yaml

from .certificates import Pair


@dataclass(frozen=True, slots=True)
class Access:
    """Address and credentials for one API server."""

    url: str
    authority: Path
    pair: Pair | None = None
    token: str | None = None

    def ssl(self) -> ssl.SSLContext:
        """The TLS settings of a client: the authority, and the certificate of the user if it has one."""
        context = ssl.create_default_context(cafile=str(self.authority))
        if self.pair:
            context.load_cert_chain(self.pair.certificate, self.pair.key)
        return context

    def headers(self) -> dict[str, str]:
        """The headers of every request."""
        return {"Authorization": f"Bearer {self.token}"} if self.token else {}


def write(file: Path, access: Access, namespace: str = "default") -> Path:
    """Writes a kubeconfig with one context named "tests"."""
    user: dict[str, str] = {"token": access.token} if access.token else {}
    if access.pair:
        user |= {"client-certificate": str(access.pair.certificate), "client-key": str(access.pair.key)}
    config = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [
            {"name": "tests", "cluster": {"server": access.url, "certificate-authority": str(access.authority)}}
        ],
        "users": [{"name": "tests", "user": user}],
        "contexts": [{"name": "tests", "context": {"cluster": "tests", "user": "tests", "namespace": namespace}}],
        "current-context": "tests",
    }
    file.write_text(yaml.safe_dump(config, sort_keys=False))
    file.chmod(0o600)
    return file


def read(file: Path) -> Access:
    """Reads a file that `write` has written."""
    config = yaml.safe_load(file.read_text())
    cluster, user = config["clusters"][0]["cluster"], config["users"][0]["user"]
    pair = Pair(Path(user["client-certificate"]), Path(user["client-key"])) if "client-key" in user else None
    return Access(cluster["server"], Path(cluster["certificate-authority"]), pair, user.get("token"))
