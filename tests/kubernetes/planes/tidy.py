"""Removes the objects of a test from the cluster."""

from __future__ import annotations

import asyncio
from typing import Any

from windlass.controlplane.api import Api, ApiError

KEPT = {"default", "kube-system", "kube-public", "kube-node-lease"}


async def clear(api: Api, *paths: str, nodes: bool = True) -> None:
    """Removes every pod and node, and all objects listed at `paths`, with finalizers and without grace.

    `nodes`: False where they are real and other tests use them.
    `paths` are lists over all namespaces: "/apis/kubeflow.org/v1/pytorchjobs".
    """
    leases = "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases"
    for path in (*paths, "/api/v1/pods", *(("/api/v1/nodes", leases) if nodes else ())):
        await asyncio.gather(*(_remove(api, path, each["metadata"]) for each in await _listed(api, path)))


async def _listed(api: Api, path: str) -> list[dict[str, Any]]:
    """The objects of a list; none where the API server does not serve their kind."""
    try:
        return list((await api.get(path))["items"])
    except ApiError as failed:
        if failed.status != 404:
            raise
        return []


async def _remove(api: Api, path: str, meta: dict[str, str]) -> None:
    root, _, plural = path.rpartition("/")
    namespace = f"/namespaces/{meta['namespace']}" if "namespace" in meta and "/namespaces/" not in path else ""
    one = f"{root}{namespace}/{plural}/{meta['name']}"
    try:
        if meta.get("finalizers"):
            await api.patch(one, {"metadata": {"finalizers": None}})
        await api.delete(one, gracePeriodSeconds=0)
    except ApiError as failed:
        if failed.status != 404:
            raise
