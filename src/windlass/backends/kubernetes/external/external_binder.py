"""Binds the pods of external gangs in the background: all of a gang, or none."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from windlass.backends.kubernetes.client.background_tasks import BackgroundTasks
from windlass.backends.kubernetes.client.objects import Pod
from windlass.backends.kubernetes.external import binding_annotations
from windlass.backends.kubernetes.external.external_gang import Allocation, ExternalGang, placement_of
from windlass.backends.kubernetes.pods.gang_binder import GangBinder, MemberStep, PlacedGang
from windlass.backends.kubernetes.pods.pod_binding import end_of_refused
from windlass.backends.kubernetes.pods.volume_binding import choose_volumes


class ExternalBinder:
    """Background binder of external gangs and of late pods.

    `mark` is called with each gang whose bindings have changed. `to_choose` returns the claims of a pod whose volumes
    are provisioned near its node. `key` signs decisions.
    """

    def __init__(
        self,
        binder: GangBinder,
        to_choose: Callable[[Pod], Iterable[str]],
        mark: Callable[[ExternalGang], None],
        on_trouble: Callable[[str], None],
        key: bytes,
    ) -> None:
        self._binder, self._binding, self._to_choose = binder, binder.binding, to_choose
        self._mark, self._on_trouble, self._key = mark, on_trouble, key
        self._tasks = BackgroundTasks(on_trouble)

    def launch(self, gang: ExternalGang, allocation: Allocation) -> None:
        """Binds all members that are not bound yet."""
        allocation.busy += 1
        self._tasks.start(self._launch(gang, allocation))

    def follow(self, gang: ExternalGang, allocation: Allocation, number: int) -> None:
        """Binds a late pod in the place of a member. If that fails, the pod no longer belongs to the gang."""
        allocation.busy += 1
        allocation.bound.discard(number)
        self._tasks.start(self._follow(gang, allocation, number))

    async def close(self) -> None:
        """Stops all requests."""
        await self._tasks.close()

    async def _launch(self, gang: ExternalGang, allocation: Allocation) -> None:
        try:
            numbers = [number for number in range(len(gang.pods)) if number not in allocation.bound]
            placed = PlacedGang(gang.id, gang.job, placement_of(gang.job, allocation.nodes))
            if self._binder.is_stale(placed, allocation, {number: allocation.nodes[number] for number in numbers}):
                allocation.stale = not allocation.bound
                return
            allocation.rebound.update(numbers)
            if not allocation.bound and len(numbers) > 1:
                # a later controller finds the whole decision on the first pod, whichever pod it sees bound
                decision = binding_annotations.decision_annotation(_decision(gang, allocation), self._key)
                await self._binder.bind(allocation, [self._step(gang, allocation, numbers.pop(0), decision)])
            note = _note(gang, allocation)
            await self._binder.bind(allocation, [self._step(gang, allocation, number, note) for number in numbers])
            allocation.whole = len(allocation.bound) == len(gang.pods)
            allocation.rebound.update(range(len(gang.pods)))
        except Exception as error:  # noqa: BLE001 - whatever it is, it is this gang's
            allocation.failed[0] = end_of_refused("its pods cannot be bound", error)
        finally:
            allocation.busy -= 1
            self._mark(gang)

    async def _follow(self, gang: ExternalGang, allocation: Allocation, number: int) -> None:
        try:
            await self._binder.bind(allocation, [self._step(gang, allocation, number, _note(gang, allocation))])
        finally:
            allocation.busy -= 1
            allocation.rebound.add(number)
            if allocation.failed.pop(number, None):
                allocation.closed.add(number)
                allocation.given_up.add(number)
            self._mark(gang)

    def _step(
        self, gang: ExternalGang, allocation: Allocation, number: int, note: Mapping[str, str] | None
    ) -> MemberStep:
        """Chooses the nodes of a pod's late volumes, and binds it."""
        pod, node = gang.pods[number], allocation.nodes[number]

        async def bind() -> None:
            claims = [(claim, node) for claim in self._to_choose(pod)]
            await choose_volumes(self._binding.connection, pod.metadata.namespace, claims)
            await self._binding.bind(pod, node, note)
            allocation.bound.add(number)

        return MemberStep(number, f"{pod.metadata.name}: its volumes cannot be written", bind)


def _decision(gang: ExternalGang, allocation: Allocation) -> binding_annotations.BindingDecision:
    uids = [pod.metadata.uid for pod in gang.pods]
    return binding_annotations.BindingDecision(gang.name, dict(zip(uids, allocation.nodes, strict=True)))


def _note(gang: ExternalGang, allocation: Allocation) -> Mapping[str, str] | None:
    """The annotation of every pod but the first: it names the pod that carries the decision."""
    if len(gang.pods) == 1:
        return None
    bound = [gang.pods[number] for number in sorted(allocation.bound)]
    first = binding_annotations.first_of(bound[0]) if bound else gang.pods[0].metadata.uid
    return binding_annotations.reference_annotation(first)
