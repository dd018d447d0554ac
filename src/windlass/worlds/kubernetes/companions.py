"""What stands beside the pods of a gang: services, config maps, secrets, roles, autoscalers, and a launcher's Job."""

from __future__ import annotations

import asyncio
import base64
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec

from windlass.jobs.kubernetes import kinds
from windlass.worlds.kubernetes.client import resources as r
from windlass.worlds.kubernetes.client.connection import Connection
from windlass.worlds.kubernetes.client.refusals import ApiError
from windlass.worlds.kubernetes.gangs import Gang
from windlass.worlds.kubernetes.runs import Run

RESOURCES = {
    (resource.api_version, resource.kind): resource
    for resource in (
        r.SERVICES,
        r.CONFIG_MAPS,
        r.SECRETS,
        r.SERVICE_ACCOUNTS,
        r.ROLES,
        r.ROLE_BINDINGS,
        r.AUTOSCALERS,
        r.JOBS,
    )
}
_SSH = "kubernetes.io/ssh-auth"


@dataclass(slots=True)
class Companions:
    """Makes them; those that are there stay, but for data that has changed."""

    connection: Connection
    at_once: asyncio.Semaphore

    async def make(self, gang: Gang, run: Run) -> None:
        """All that are missing. Raises ApiError."""
        wanted = kinds.companions(gang.parsed, (), run.sizes)
        await asyncio.gather(*(self._make(manifest) for manifest in wanted))

    async def _make(self, manifest: Mapping[str, Any]) -> None:
        resource = RESOURCES[manifest["apiVersion"], manifest["kind"]]
        async with self.at_once:
            try:
                await self.connection.create(resource, with_keys(manifest))
            except ApiError as error:
                if not error.is_exists:
                    raise


def with_keys(manifest: Mapping[str, Any]) -> Mapping[str, Any]:
    """A blank secret for SSH with a fresh ECDSA P-521 pair in it, as mpi-operator makes it; anything else as it is."""
    if manifest["kind"] != "Secret" or manifest.get("type") != _SSH:
        return manifest
    key = ec.generate_private_key(ec.SECP521R1())
    private = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.TraditionalOpenSSL, serialization.NoEncryption()
    )
    public = key.public_key().public_bytes(serialization.Encoding.OpenSSH, serialization.PublicFormat.OpenSSH)
    data = {"ssh-privatekey": private, "ssh-publickey": public + b"\n"}
    return {**manifest, "data": {name: base64.b64encode(value).decode() for name, value in data.items()}}
