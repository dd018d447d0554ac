"""Access inside a cluster: the service account mounted into every pod, whose token rotates and is read again."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

from windlass.backends.kubernetes.client.config_library import load_library
from windlass.backends.kubernetes.client.credentials import IdentityCache, empty_settings
from windlass.backends.kubernetes.client.identity import Access, AccessError, Identity

FOLDER = Path("/var/run/secrets/kubernetes.io/serviceaccount")


def is_in_cluster(folder: Path = FOLDER, environment: Mapping[str, str] = os.environ) -> bool:
    """Tells whether this process runs in a pod with access to the API server."""
    return bool(environment.get("KUBERNETES_SERVICE_HOST")) and (folder / "token").exists()


def in_cluster(folder: Path = FOLDER, environment: Mapping[str, str] = os.environ) -> Access:
    """Returns the API server of the cluster that this process runs in. Raises AccessError outside a cluster.

    The token is read again every minute, and at once if the server refuses it.
    """
    of_library = load_library().in_cluster
    loader = of_library.InClusterConfigLoader(str(folder / "token"), str(folder / "ca.crt"), environ=environment)
    found, identities = empty_settings(), IdentityCache()

    async def identify(renew: bool) -> Identity:  # noqa: FBT001 - its only argument
        return read(anew=renew)

    def read(*, anew: bool) -> Identity:
        try:
            if anew:
                loader.load_and_set(found)
            found.refresh_api_key_hook(found)
            return identities.identity(found)
        except (of_library.ConfigException, OSError) as error:
            raise AccessError(
                f"this process cannot ask the API server as its pod's service account: {error}"
            ) from error

    read(anew=True)
    return Access(found.host, identify, namespace=_namespace(folder))


def _namespace(folder: Path) -> str:
    try:
        return (folder / "namespace").read_text().strip() or "default"
    except OSError:
        return "default"
