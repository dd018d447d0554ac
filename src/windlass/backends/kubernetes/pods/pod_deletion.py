"""Deletes and evicts pods in the background, of our own gangs and of external ones."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from functools import partial

from windlass.backends.kubernetes.client.api_errors import ApiError
from windlass.backends.kubernetes.client.background_tasks import BackgroundTasks
from windlass.backends.kubernetes.client.objects import Pod
from windlass.backends.kubernetes.client.persistent_request import request_until_answered
from windlass.backends.kubernetes.gangs.run_pods import grace_of, is_being_deleted
from windlass.backends.kubernetes.pods.pod_binding import PodBinding

EVICTION_TIMEOUT_S = 60.0
"""Time for which a disruption budget may forbid an eviction before it counts as refused."""
_BUDGET_RETRY_S = 5.0
"""Seconds before an eviction that a disruption budget forbids is requested again."""
_RETRY_S = 30.0
"""Seconds before a request that the API server has refused is repeated."""


class PodDeletion:
    """Background deletion and eviction of pods, each requested once until `forget`."""

    def __init__(self, binding: PodBinding, on_trouble: Callable[[str], None]) -> None:
        self._binding, self._on_trouble = binding, on_trouble
        self._leaving = binding.leaving
        self._tasks = BackgroundTasks(on_trouble)
        self.eviction_timeout_s = EVICTION_TIMEOUT_S
        self._evicting: set[str] = set()
        """Uids of pods whose eviction is being tried."""
        self.on_refused: Callable[[Pod, str], None] = lambda _pod, _why: None
        """Called when a budget has forbidden an eviction for so long, and again after as long."""

    def delete(self, pods: Iterable[Pod], grace: int | None = None) -> None:
        """Deletes pods. `grace`: seconds that they have to end; None: as each pod specifies."""
        for pod in pods:
            self._send(pod, partial(self._delete, pod, grace_of(pod) if grace is None else grace))

    def evict(self, pods: Iterable[Pod], grace: int | None = None) -> None:
        """Deletes pods as soon as their disruption budgets allow it. `grace` as for `delete`."""
        for pod in pods:
            self._send(pod, partial(self._evict, pod, grace))

    def forget(self, pod: Pod) -> None:
        """Records that a pod is gone."""
        self._leaving.discard(pod.metadata.uid)

    def cancel_evictions(self, pods: Iterable[Pod]) -> None:
        """Stops trying to evict these pods."""
        for pod in pods:
            if pod.metadata.uid in self._evicting:
                self._evicting.discard(pod.metadata.uid)
                self._leaving.discard(pod.metadata.uid)

    async def close(self) -> None:
        """Stops all requests."""
        await self._tasks.close()

    def _send(self, pod: Pod, request: Callable[[], Awaitable[None]]) -> None:
        if pod.metadata.uid not in self._leaving:
            self._leaving.add(pod.metadata.uid)
            self._tasks.start(self._until_accepted(pod, request))

    async def _until_accepted(self, pod: Pod, request: Callable[[], Awaitable[None]]) -> None:
        while True:
            try:
                return await request_until_answered(request)
            except ApiError as error:
                self._on_trouble(f"{pod.metadata.namespace}/{pod.metadata.name} cannot be deleted: {error}")
                await asyncio.sleep(_RETRY_S)

    async def _delete(self, pod: Pod, grace: int) -> None:
        async with self._binding.at_once:
            await self._binding.remove(pod, grace)

    async def _evict(self, pod: Pod, grace: int | None) -> None:
        about, loop = pod.metadata, asyncio.get_running_loop()
        give_up = loop.time() + self.eviction_timeout_s
        self._evicting.add(about.uid)
        while about.uid in self._evicting:
            try:
                async with self._binding.at_once:
                    await self._binding.connection.evict(about.namespace, about.name, grace, uid=about.uid)
            except ApiError as error:
                if error.is_missing or error.is_conflict:
                    break
                if not error.is_budget:
                    raise
                if loop.time() >= give_up:
                    give_up = loop.time() + self.eviction_timeout_s
                    self._on_trouble(f"{about.namespace}/{about.name} cannot be evicted: {error}")
                    self.on_refused(pod, str(error))
            else:
                break
            await asyncio.sleep(min(_BUDGET_RETRY_S, self.eviction_timeout_s))
        self._evicting.discard(about.uid)


def is_leaving_within(pod: Pod, grace: int) -> bool:
    """Tells whether a pod is being deleted with at most so many seconds to end. A request can shorten a longer time."""
    return is_being_deleted(pod) and (pod.metadata.deletion_grace_period_seconds or 0) <= grace


def limited_grace(pod: Pod, most: int) -> int | None:
    """Returns `most` seconds of grace for a pod that specifies more; None for any other."""
    return most if grace_of(pod) > most else None
