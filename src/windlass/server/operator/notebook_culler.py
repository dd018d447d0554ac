"""Stops Notebook objects that are idle, where the installation permits it, by the annotation of Kubeflow.

Source: kubeflow/kubeflow (Apache-2.0), components/notebook-controller/controllers/culling_controller.go. As there, the
time of the last activity is an annotation, a kernel that is not idle counts as activity, and a stopped notebook starts
when the annotation is removed; its volume claims stay. A server that does not answer is not stopped.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from typing import Any, Never

from windlass.backends.errors import BackendError
from windlass.backends.kubernetes.backend import KubernetesBackend
from windlass.backends.kubernetes.client.objects import Pod
from windlass.backends.kubernetes.client.pod_requests import read_json
from windlass.backends.kubernetes.gangs.gang import Gang
from windlass.core.model.status import Phase
from windlass.jobs.kubernetes.job_patches import NOTEBOOK, STOPPED
from windlass.jobs.kubernetes.kinds.notebook import PORT

LAST_ACTIVITY = "notebooks.kubeflow.org/last-activity"
CHECKED = "notebooks.kubeflow.org/last_activity_check_timestamp"
_PERIOD_S = 60.0
"""Interval of the checks, as Kubeflow's IDLENESS_CHECK_PERIOD."""
_AT_ONCE = 20
"""Notebooks that are asked at the same time."""
_IDLE = "idle"
ReadJson = Callable[[str, int, str], Awaitable[object | None]]


class NotebookCuller:
    """Looks at the running notebooks every minute while this replica leads. `limit_ms`: idle time until the stop."""

    def __init__(self, backend: KubernetesBackend, limit_ms: int, read: ReadJson = read_json) -> None:
        self._backend, self._limit_ms, self._read = backend, limit_ms, read
        self._slots = asyncio.Semaphore(_AT_ONCE)
        self._task: asyncio.Task[Never] | None = None

    def start(self) -> None:
        """Begins to look."""
        self._task = asyncio.get_running_loop().create_task(self._run())

    async def close(self) -> None:
        """Ends."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    async def look(self) -> None:
        """Looks at every running notebook once. A fault of one notebook ends with that notebook."""
        running = [gang for gang in self._backend.jobs if _is_running_notebook(gang)]
        await asyncio.gather(*(self._look_at(gang) for gang in running))

    async def _run(self) -> Never:
        while True:
            await asyncio.sleep(_PERIOD_S)
            await self.look()

    async def _look_at(self, gang: Gang) -> None:
        pod = gang.run.pods.get(0) if gang.run is not None else None
        if pod is None or not pod.status.pod_ip:
            return
        try:
            async with self._slots:
                kernels = await self._read(pod.status.pod_ip, _port_of(pod), _path_of(gang))
            await self._write(gang, kernels)
        except BackendError as error:
            self._backend.on_trouble(f"notebook {gang.id} is not checked for idleness: {error}")

    async def _write(self, gang: Gang, kernels: object) -> None:
        now = self._backend.now()
        job = gang.reference
        manifest = self._backend.job_objects[job.resource].get(job.namespace, job.name)
        if manifest is None:
            return
        before = last_activity(manifest, now)
        found = activity_of(kernels, now)
        if found is None and before is not None:
            return  # no Jupyter answers
        latest = now if before is None else max(before, found or 0)  # a notebook that has just started is active
        annotations: dict[str, str | None] = {LAST_ACTIVITY: _text(latest), CHECKED: _text(now)}
        if found is not None and now - latest >= self._limit_ms:
            annotations = {LAST_ACTIVITY: None, CHECKED: None, STOPPED: _text(now)}
            self._backend.on_trouble(f"notebook {gang.id} is stopped: idle since {_text(latest)}")
        elif before is not None and latest - before < _PERIOD_S * 1000:
            return  # each write is a change that every watch gets
        body = {"metadata": {"annotations": annotations}}
        await self._backend.connection.patch(job.resource, job.namespace, job.name, body)


def activity_of(kernels: object, now: int) -> int | None:
    """Returns the last activity in Jupyter's list of kernels, at most `now`; 0 without kernels, None for other answers.

    A kernel that is not idle is active now.
    """
    if not isinstance(kernels, list) or not all(isinstance(each, dict) for each in kernels):
        return None
    if any(each.get("execution_state") != _IDLE for each in kernels):
        return now
    return min(now, max([0, *(_milliseconds(each.get("last_activity")) or 0 for each in kernels)]))


def last_activity(manifest: dict[str, Any], now: int) -> int | None:
    """Returns the last activity that is known of a Notebook, at most `now`; None for an annotation that is no time."""
    annotations = manifest["metadata"].get("annotations") or {}
    found = _milliseconds(annotations.get(LAST_ACTIVITY))
    return None if found is None else min(found, now)


def _is_running_notebook(gang: Gang) -> bool:
    return gang.reference.resource.kind == NOTEBOOK and gang.status.phase is Phase.RUNNING and not gang.deleted


def _port_of(pod: Pod) -> int:
    ports = [port.container_port for container in pod.spec.containers[:1] for port in container.ports]
    return next(iter(ports), PORT)


def _path_of(gang: Gang) -> str:
    return f"/notebook/{gang.parsed.namespace}/{gang.parsed.name}/api/kernels"


def _milliseconds(value: object) -> int | None:
    """Returns a text in RFC 3339 as milliseconds since the epoch; None for anything else."""
    try:
        return int(datetime.fromisoformat(str(value)).timestamp() * 1000)
    except (ValueError, OverflowError):
        return None


def _text(at: int) -> str:
    return datetime.fromtimestamp(at // 1000, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
