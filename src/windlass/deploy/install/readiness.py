"""Waits until the API serves a kind and admits its objects, and until the operator's replicas are ready."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence

from windlass.backends.errors import BackendError
from windlass.backends.kubernetes.client.api_errors import ApiError, Outcome
from windlass.backends.kubernetes.client.connection import Connection
from windlass.backends.kubernetes.client.resources import DEFINITIONS, DEPLOYMENTS, PODS, Resource, path
from windlass.deploy.labels import selector_of
from windlass.jobs.kubernetes.manifest_reader import Manifest
from windlass.jobs.kubernetes.operator_names import OPERATOR

_SERVED_TIMEOUT_S = 60.0
"""Seconds that the API server has to serve a new kind, which usually takes less than a second."""
_POLL_INTERVAL_S = 0.2
NO_REASON = "the API server gives no reason"


class InstallError(BackendError):
    """A part of an installation does not become ready; the text contains the known reason."""


async def wait_until_established(
    connection: Connection, names: Iterable[str], within: float = _SERVED_TIMEOUT_S
) -> None:
    """Waits until every definition with one of these names is established. Raises InstallError."""
    for name in names:
        reason = NO_REASON
        try:
            async with asyncio.timeout(within):
                while True:
                    reason = _missing(await connection.get(DEFINITIONS, None, name))
                    if not reason:
                        break
                    await asyncio.sleep(_POLL_INTERVAL_S)
        except TimeoutError:
            raise InstallError(f"the kind {name} is not served after {within:.0f} s: {reason}") from None


async def wait_until_admitted(
    connection: Connection, namespace: str, kinds: Iterable[Resource], within: float = _SERVED_TIMEOUT_S
) -> None:
    """Waits until the API server admits objects of these kinds. Raises InstallError.

    For seconds after a kind is new, an API server with a MutatingAdmissionPolicy answers 503 to its objects: it looks
    for new schemas every five seconds. An object without a spec is sent as a dry run, and its refusal by the rules of
    the kind shows as well that admission works.
    """
    params, about = {"dryRun": "All"}, {"name": "windlass-install", "namespace": namespace}
    for kind in kinds:
        body = {"apiVersion": kind.api_version, "kind": kind.kind, "metadata": about, "spec": {}}
        try:
            await connection.request("POST", path(kind, namespace), body=body, params=params, within=within)
        except ApiError as error:
            if error.outcome is not Outcome.REFUSED:
                text = f"the API server does not admit objects of the kind {kind.kind} after {within:.0f} s: {error}"
                raise InstallError(text) from None


def _missing(definition: Manifest) -> str:
    """Reason why the kind is not served yet; empty if it is."""
    if condition_of(definition, "Established").get("status") == "True":
        return ""
    return str(condition_of(definition, "NamesAccepted").get("message") or NO_REASON)


def condition_of(manifest: Manifest, name: str) -> Manifest:
    """The condition of this type in the status of an object; empty if there is none."""
    conditions: Sequence[Manifest] = manifest.get("status", {}).get("conditions") or ()  # null in a new definition
    return next((each for each in conditions if each["type"] == name), {})


async def wait_until_ready(connection: Connection, namespace: str, within: float) -> None:
    """Waits until all replicas of the operator are ready. Raises InstallError with the state of their pods."""
    try:
        async with asyncio.timeout(within):
            while True:
                if is_ready(await connection.get(DEPLOYMENTS, namespace, OPERATOR)):
                    return
                await asyncio.sleep(_POLL_INTERVAL_S)
    except TimeoutError:
        state = await describe_pods(connection, namespace)
        raise InstallError(
            f"the operator is not ready after {within:.0f} s: {state}\n"
            f"all objects are applied; windlass operator check -n {namespace} checks again"
        ) from None


def is_ready(deployment: Manifest) -> bool:
    """Whether every replica is ready and of the newest template."""
    status, replicas = deployment.get("status", {}), deployment["spec"]["replicas"]
    seen = status.get("observedGeneration", 0) >= deployment["metadata"]["generation"]
    return seen and all(status.get(name, 0) >= replicas for name in ("updatedReplicas", "readyReplicas"))


async def describe_pods(connection: Connection, namespace: str) -> str:
    """Reasons why the operator's pods are not ready, from their status."""
    selector = ",".join(f"{name}={value}" for name, value in selector_of("operator").items())
    pods = await connection.list(PODS, namespace, selector=selector)
    reasons = {reason for pod in pods if (reason := _describe_pod(pod))}
    if not pods:
        return "it has no pods; check that a controller-manager runs, and that no quota or admission rule refuses them"
    return "; ".join(sorted(reasons)) or "its pods run, but are not ready; kubectl logs shows more"


def _describe_pod(pod: Manifest) -> str:
    containers = pod.get("status", {}).get("containerStatuses", [])
    waiting = [each["state"]["waiting"] for each in containers if "waiting" in each.get("state", {})]
    scheduled = condition_of(pod, "PodScheduled")
    why = [*waiting, *([scheduled] if scheduled.get("status") == "False" else [])]
    return next((": ".join(filter(None, (each.get("reason"), each.get("message")))) for each in why), "")
