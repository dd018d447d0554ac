"""The fields in the status of a Notebook that Kubeflow's pages read: its pod, and why it waits.

Source: kubeflow/kubeflow (Apache-2.0), components/notebook-controller/api/v1/notebook_types.go.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from windlass.backends.kubernetes.client.objects import ContainerState, Pod
from windlass.backends.kubernetes.gangs.gang import Gang
from windlass.core.model.status import Phase, Status

WAITING = "Waiting"
"""Type of a condition: the notebook waits for its node, or its container does not run yet."""
_QUEUED = "Queued"


def notebook_fields(gang: Gang) -> dict[str, Any]:
    """Returns `readyReplicas` and `containerState`, from the pod; without one there is no state."""
    pod = _pod(gang)
    states = () if pod is None else pod.status.container_statuses
    named = next((each for each in states if each.name == gang.parsed.name), next(iter(states), None))
    return {
        "readyReplicas": int(named is not None and named.ready),
        "containerState": {} if named is None else _state(named.state),
    }


def waiting_condition(gang: Gang, life: Status, fields: Mapping[str, Any]) -> dict[str, str]:
    """Returns the condition `Waiting`, with the reason of the queue, or that of the container."""
    of_container = fields["containerState"].get("waiting")
    waits = life.phase in (Phase.CREATED, Phase.QUEUED)
    if waits:
        reason, message = gang.notes.pending_reason or _QUEUED, gang.notes.pending_message or life.message
    else:
        reason, message = (of_container or {}).get("reason") or "", (of_container or {}).get("message") or ""
    status = "True" if waits or of_container is not None else "False"
    return {"type": WAITING, "status": status, "reason": reason, "message": message}


def _pod(gang: Gang) -> Pod | None:
    run = gang.run
    if run is None or run.gone:
        return None
    return run.pods.get(0)


def _state(state: ContainerState) -> dict[str, Any]:
    """Returns the state in the form of the Kubernetes API."""
    if state.waiting is not None:
        return {"waiting": {"reason": state.waiting.reason, "message": state.waiting.message}}
    if state.running is not None:
        return {"running": {"startedAt": state.running.started_at} if state.running.started_at else {}}
    if state.terminated is not None:
        return {"terminated": {"exitCode": state.terminated.exit_code, "reason": state.terminated.reason}}
    return {}
