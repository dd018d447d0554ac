"""Finds an API server and credentials for it: inside a cluster, or by a kubeconfig."""

from __future__ import annotations

from windlass.backends.kubernetes.client.identity import Access, AccessError, Identity
from windlass.backends.kubernetes.client.kubeconfig import from_kubeconfig
from windlass.backends.kubernetes.client.service_account import in_cluster, is_in_cluster

__all__ = ["Access", "AccessError", "Identity", "find", "from_kubeconfig", "in_cluster"]


def find(on: str | None = None) -> Access:
    """Returns the cluster that this process runs in, else the kubeconfig's; `on` names a context of the kubeconfig.

    Raises AccessError. Makes no request and runs no plugin.
    """
    return in_cluster() if on is None and is_in_cluster() else from_kubeconfig(context=on)
