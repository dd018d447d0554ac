"""Waiting until the API serves a kind, and until the operator's replicas are ready."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence
from typing import Any

from windlass.backends.errors import BackendError
from windlass.backends.kubernetes.client.connection import Connection
from windlass.backends.kubernetes.client.resources import DEFINITIONS, DEPLOYMENTS, PODS
from windlass.deploy.labels import selector_of
from windlass.deploy.roles import OPERATOR
from windlass.jobs.kubernetes.manifest_reader import Manifest

_SERVED_WITHIN = 60.0
"""Seconds that the API server may take to serve a new kind; it takes less than one."""
_LOOKS = 0.2
"""Seconds between two looks."""


class InstallError(BackendError):
    """Something of an installation does not come to be; the text says what is known of why."""


async def wait_until_established(connection: Connection, names: Iterable[str], within: float = _SERVED_WITHIN) -> None:
    """Wait until every definition of these names is established. Raises InstallError."""
    for name in names:
        why = "the API server has not said why"
        try:
            async with asyncio.timeout(within):
                while True:
                    why = _missing(await connection.get(DEFINITIONS, None, name))
                    if not why:
                        break
                    await asyncio.sleep(_LOOKS)
        except TimeoutError:
            raise InstallError(f"the kind {name} is not served after {within:.0f} s: {why}") from None


def _missing(definition: Manifest) -> str:
    """Why the kind is not served yet; empty if it is."""
    conditions = {each["type"]: each for each in definition.get("status", {}).get("conditions", [])}
    if conditions.get("Established", {}).get("status") == "True":
        return ""
    names = conditions.get("NamesAccepted", {})
    return str(names.get("message") or "the API server has not said why")


async def wait_until_ready(connection: Connection, namespace: str, within: float) -> None:
    """Wait until all replicas of the operator are ready. Raises InstallError, which tells what their pods say."""
    try:
        async with asyncio.timeout(within):
            while True:
                if is_ready(await connection.get(DEPLOYMENTS, namespace, OPERATOR)):
                    return
                await asyncio.sleep(_LOOKS)
    except TimeoutError:
        said = await describe_pods(connection, namespace)
        raise InstallError(
            f"the operator is not ready after {within:.0f} s: {said}\n"
            f"everything is applied; windlass operator check -n {namespace} looks again"
        ) from None


def is_ready(deployment: Manifest) -> bool:
    """Whether every replica is of the newest template and ready."""
    status, wanted = deployment.get("status", {}), deployment["spec"]["replicas"]
    seen = status.get("observedGeneration", 0) >= deployment["metadata"]["generation"]
    return seen and all(status.get(name, 0) >= wanted for name in ("updatedReplicas", "readyReplicas"))


async def describe_pods(connection: Connection, namespace: str) -> str:
    """Why the operator's pods are not ready, in the words of the cluster."""
    selector = ",".join(f"{name}={value}" for name, value in selector_of("operator").items())
    pods = await connection.list(PODS, namespace, selector=selector)
    said = {reason for pod in pods if (reason := _pod_says(pod.get("status", {})))}
    if not pods:
        return "it has no pods; does a controller-manager run, and does a quota or an admission rule refuse them?"
    return "; ".join(sorted(said)) or "its pods run, but are not ready; kubectl logs says more"


def _pod_says(status: dict[str, Any]) -> str:
    waiting: Sequence[dict[str, str]] = [
        each["state"]["waiting"] for each in status.get("containerStatuses", []) if "waiting" in each.get("state", {})
    ]
    for state in waiting:
        return ": ".join(filter(None, (state.get("reason"), state.get("message"))))
    for condition in status.get("conditions", []):
        if condition["type"] == "PodScheduled" and condition["status"] == "False":
            return ": ".join(filter(None, (condition.get("reason"), condition.get("message"))))
    return ""
