"""Brings gangs of others to their nodes, whole or not at all, and away again. In the background."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Iterable, Mapping
from typing import Any

from windlass.backends.kubernetes.client.api_errors import ApiError, NotLeader, Unreachable
from windlass.backends.kubernetes.client.background_tasks import BackgroundTasks
from windlass.backends.kubernetes.client.objects import Pod
from windlass.backends.kubernetes.client.persistent_request import PAUSE, request_until_answered
from windlass.backends.kubernetes.client.resources import CLAIMS
from windlass.backends.kubernetes.cluster.volumes import SELECTED_NODE
from windlass.backends.kubernetes.external import binding_annotations
from windlass.backends.kubernetes.external.external_gang import Allocation, ExternalGang
from windlass.backends.kubernetes.pods.pod_binding import CannotBindError, PodBinding

_BUDGET_PAUSE = 5.0
"""Seconds before a disruption budget is asked again."""
_LATER = 30.0
"""Seconds before a pod is told again to go that the API server did not let go."""
_GRACE = 30
"""Seconds: terminationGracePeriodSeconds where none is written."""


class ExternalBinder:
    """`concern` hears of a gang for which something was done, `on_trouble` of what was not to be foreseen.

    `give_up` hears of a pod that could not take another's place.

    `to_choose`: the claims of a pod that are to be told of its node before it is bound.
    """

    def __init__(
        self,
        seating: PodBinding,
        to_choose: Callable[[Pod], Iterable[str]],
        concern: Callable[[ExternalGang], None],
        give_up: Callable[[ExternalGang, int], None],
        on_trouble: Callable[[str], None],
    ) -> None:
        self._seating, self._to_choose = seating, to_choose
        self._concern, self._give_up, self._on_trouble = concern, give_up, on_trouble
        self._errands = BackgroundTasks(on_trouble)
        self._leaving: set[str] = set()
        """Uids of pods that are being told to go."""

    def launch(self, guest: ExternalGang, stay: Allocation) -> None:
        """Bind all that are not bound yet."""
        stay.busy += 1
        self._errands.send(self._launch(guest, stay))

    def follow(self, guest: ExternalGang, stay: Allocation, number: int) -> None:
        """Bind the pod that takes another member's place. One that cannot be is no member any more."""
        stay.busy += 1
        stay.bound.discard(number)
        self._errands.send(self._follow(guest, stay, number))

    def evict(self, pods: Iterable[Pod]) -> None:
        """Have pods go, as soon as their disruption budgets allow it. Told twice, once."""
        self._dismiss(pods, self._evict)

    def unwind(self, pods: Iterable[Pod]) -> None:
        """Delete pods of a gang that is not whole: no budget was meant for that. Told twice, once."""
        self._dismiss(pods, self._remove)

    async def close(self) -> None:
        """Leave everything as it is."""
        await self._errands.close()

    # --- to their nodes ------------------------------------------------------------------------------

    async def _launch(self, guest: ExternalGang, stay: Allocation) -> None:
        try:
            numbers = [number for number in range(len(guest.pods)) if number not in stay.bound]
            if not stay.bound and len(numbers) > 1:
                # whoever finds any pod of the gang bound can find out from the first where all of it was to go
                await self._seat(guest, stay, numbers.pop(0), binding_annotations.whole(_decision(guest, stay)))
            note = binding_annotations.part(_first(guest, stay)) if len(guest.pods) > 1 else None
            await asyncio.gather(*(self._seat(guest, stay, number, note) for number in numbers))
            stay.whole = len(stay.bound) == len(guest.pods)
        finally:
            stay.busy -= 1
            self._concern(guest)

    async def _follow(self, guest: ExternalGang, stay: Allocation, number: int) -> None:
        try:
            await self._seat(
                guest, stay, number, binding_annotations.part(_first(guest, stay)) if len(guest.pods) > 1 else None
            )
        finally:
            stay.busy -= 1
            if stay.failed.pop(number, None):
                stay.closed.add(number)
                self._give_up(guest, number)
            self._concern(guest)

    async def _seat(self, guest: ExternalGang, stay: Allocation, number: int, note: Mapping[str, str] | None) -> None:
        pod, node = guest.pods[number], stay.nodes[number]
        while not (stay.failed or stay.stopping):
            try:
                await self._choose_volumes(pod, node)
                await self._seating.bind(pod, node, note)
                stay.bound.add(number)
            except CannotBindError as error:
                stay.failed[number] = error.exit.detail
            except (Unreachable, NotLeader):  # not `patiently`: it may be stopped meanwhile
                await asyncio.sleep(PAUSE)
                continue
            except ApiError as error:
                stay.failed[number] = f"{pod.metadata.name}: {error}"
            return

    async def _choose_volumes(self, pod: Pod, node: str) -> None:
        for claim in self._to_choose(pod):
            body = {"metadata": {"annotations": {SELECTED_NODE: node}}}
            await self._seating.connection.patch(CLAIMS, pod.metadata.namespace, claim, body)

    # --- away ----------------------------------------------------------------------------------------

    def _dismiss(self, pods: Iterable[Pod], send: Callable[[Pod], Coroutine[Any, Any, None]]) -> None:
        for pod in pods:
            if pod.metadata.uid not in self._leaving and not pod.metadata.deletion_timestamp:
                self._leaving.add(pod.metadata.uid)
                self._errands.send(self._surely(pod, send))

    async def _surely(self, pod: Pod, send: Callable[[Pod], Coroutine[Any, Any, None]]) -> None:
        try:
            while True:
                try:
                    return await request_until_answered(lambda: send(pod))
                except ApiError as error:
                    name = f"{pod.metadata.namespace}/{pod.metadata.name}"
                    self._on_trouble(f"{name} is to go, and the API server does not let it: {error}")
                    await asyncio.sleep(_LATER)
        finally:
            self._leaving.discard(pod.metadata.uid)

    async def _remove(self, pod: Pod) -> None:
        async with self._seating.at_once:
            await self._seating.remove(pod, _grace(pod))

    async def _evict(self, pod: Pod) -> None:
        about, loop = pod.metadata, asyncio.get_running_loop()
        patience, told = loop.time() + _grace(pod), False
        while True:
            try:
                async with self._seating.at_once:
                    await self._seating.connection.evict(about.namespace, about.name, uid=about.uid)
            except ApiError as error:
                if error.is_missing or error.is_conflict:
                    return
                if not error.is_budget:
                    raise
                if not told and loop.time() > patience:
                    told = True
                    self._on_trouble(f"{about.namespace}/{about.name} is to make room and stays: {error}")
            else:
                return
            await asyncio.sleep(_BUDGET_PAUSE)


def _decision(guest: ExternalGang, stay: Allocation) -> binding_annotations.Decision:
    uids = [pod.metadata.uid for pod in guest.pods]
    return binding_annotations.Decision(guest.name, dict(zip(uids, stay.nodes, strict=True)))


def _first(guest: ExternalGang, stay: Allocation) -> str:
    """The uid of the pod that has the decision: of those that were bound by an earlier controller, or now."""
    bound = [guest.pods[number] for number in sorted(stay.bound)]
    return binding_annotations.first_of(bound[0]) if bound else guest.pods[0].metadata.uid


def _grace(pod: Pod) -> int:
    seconds = pod.spec.termination_grace_period_seconds
    return _GRACE if seconds is None else seconds
