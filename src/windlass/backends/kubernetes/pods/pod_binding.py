"""Creates the pods of a gang and binds them to their nodes: all of them, or the gang fails with the reason.

All requests may be repeated: a pod that exists is left alone, and a pod that is bound to its node stays bound.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import msgspec

from windlass.backends.kubernetes.client import objects
from windlass.backends.kubernetes.client.api_errors import ApiError
from windlass.backends.kubernetes.client.connection import Connection, find_object
from windlass.backends.kubernetes.client.objects import Pod
from windlass.backends.kubernetes.client.owners import owner_of
from windlass.backends.kubernetes.client.persistent_request import RETRY_INTERVAL_S
from windlass.backends.kubernetes.client.priority_limiter import PriorityLimiter
from windlass.backends.kubernetes.client.resources import PODS, path
from windlass.backends.kubernetes.gangs.pod_template_hash import is_current
from windlass.backends.kubernetes.gangs.run_pods import generation_of, grace_of, is_being_deleted
from windlass.backends.kubernetes.pods.pod_store import PodStore, key_of
from windlass.core.lifecycle.events import Exit
from windlass.core.lifecycle.failure import INVALID, REJECTED
from windlass.jobs.kubernetes.manifest_reader import Manifest
from windlass.jobs.kubernetes.parsed_job import Member
from windlass.jobs.kubernetes.status.announcements import CREATED, DELETED

_GARBAGE_COLLECTION_S = 15.0
"""Seconds within which the pods of a deleted job are marked for deletion."""


class CannotBindError(Exception):
    """A member cannot be bound to its node. `exit` is the resulting end of the member.

    `refusal`: the API server's, if any; None if another scheduler has bound the pod, or another pod has its name.
    """

    def __init__(self, exit: Exit, refusal: ApiError | None = None) -> None:
        super().__init__(exit.detail)
        self.exit, self.refusal = exit, refusal


class NotWantedError(Exception):
    """The pod is no longer wanted: its gang is stopping, has a newer generation, or could not bind a member."""


@dataclass(slots=True)
class PodBinding:
    """Creator and binder of pods over one connection, with limited concurrency, by what is known of existing pods."""

    connection: Connection
    at_once: PriorityLimiter
    pods: PodStore
    is_dead: Callable[[str], bool]
    """Tells whether nothing can run any more on a node of this name: no kubelet confirms the end of a pod there."""
    leaving: set[str] = field(default_factory=set)
    """Uids of pods whose deletion is being requested."""
    on_change: Callable[[Pod, str], None] = lambda _pod, _verb: None
    """Called with a pod that was created or deleted by a request, and with `CREATED` or `DELETED`."""

    async def make(
        self, member: Member, generation: int, node: str = "", wanted: Callable[[], bool] = lambda: True
    ) -> Pod:
        """Returns the member's pod of this generation, created if it does not exist: on its node, if that is known.

        A pod without a node that was created for another spec is replaced.

        Raises CannotBindError, ApiError, Unreachable; NotWantedError once it is not `wanted`, however long its name is
        taken.
        """
        body = member.pod
        if node:
            body = {**body, "spec": {**body["spec"], "nodeName": node}}
        namespace = member.pod["metadata"]["namespace"]
        give_up = time.monotonic() + _GARBAGE_COLLECTION_S
        while True:
            known = self.pods.get(namespace, member.name)
            if known is not None and self._is_it(known, member, generation):
                return known
            if not wanted():
                raise NotWantedError
            if known is not None:
                await self._make_room(known, member, generation, give_up)
                continue
            async with self.at_once:
                made = await self._create(namespace, member.name, body)
            if made is None:
                continue
            self.pods.learn(made)

    async def _create(self, namespace: str, name: str, body: Manifest) -> Pod | None:
        """Creates a pod, or takes the one that has its name; returns None if that is gone by now. Raises ApiError."""
        began = time.monotonic()
        try:
            made = objects.pod(await self.connection.request("POST", path(PODS, namespace), body=body))
        except ApiError as error:
            if not error.is_exists:
                raise
            there = await find_object(self.connection, PODS, namespace, name)
            return None if there is None else pod_of(there)
        if body["spec"].get("nodeName"):
            self.connection.counters.bindings.observe(time.monotonic() - began)
        self.on_change(made, CREATED)
        return made

    def _is_it(self, known: Pod, member: Member, generation: int) -> bool:
        going = known.metadata.uid in self.leaving and not known.spec.node_name
        ours = known.metadata.controller == owner_of(member.pod) and generation_of(known) == generation
        return ours and is_current(known, member) and not going

    async def _make_room(self, known: Pod, member: Member, generation: int, give_up: float) -> None:
        """Frees a member's name from another pod. Raises CannotBindError, NotWantedError, ApiError, Unreachable."""
        if known.metadata.controller != owner_of(member.pod):
            await self._until_free(known, give_up)
        elif known.metadata.uid in self.leaving:
            await self._look_again(known)
        elif generation_of(known) > generation:
            raise NotWantedError
        else:
            await self._clear(known)

    async def bind(self, pod: Pod, node: str, notes: Mapping[str, str] | None = None) -> None:
        """Binds a pod to its node, annotated with `notes`. Raises CannotBindError, Unreachable."""
        about = pod.metadata
        if pod.spec.node_name == node:
            return
        if pod.spec.node_name:
            raise CannotBindError(_retryable(f"{about.name} was bound to {pod.spec.node_name} by another scheduler"))
        async with self.at_once:
            try:
                await self.connection.bind(about.namespace, about.name, about.uid, node, annotations=notes)
            except ApiError as error:
                end = _retryable(f"{about.name} could not be bound to {node}: {error}")
                raise CannotBindError(end, error) from None

    async def _clear(self, pod: Pod) -> None:
        """Deletes a pod of an earlier generation or spec that still holds this name, and waits until it is deleted."""
        ended = not pod.spec.node_name or pod.status.has_ended
        at_once = ended or self.is_dead(pod.spec.node_name)
        if at_once or not is_being_deleted(pod):
            self.leaving.add(pod.metadata.uid)
            try:
                async with self.at_once:
                    await self.remove(pod, 0 if at_once else grace_of(pod))
            except BaseException:
                self.leaving.discard(pod.metadata.uid)
                raise
        await self._look_again(pod)

    async def _until_free(self, pod: Pod, give_up: float) -> None:
        """Waits until another job's pod of this name is deleted. Raises CannotBindError if it stays."""
        if not pod.metadata.deletion_timestamp and time.monotonic() > give_up:
            reason = f"{pod.metadata.name} could not be created: a pod of that name belongs to another object"
            raise CannotBindError(_retryable(f"{reason}; delete that pod, or give the job another name"))
        await self._look_again(pod)

    async def _look_again(self, pod: Pod) -> None:
        """Waits until the pod is gone, at most `RETRY_INTERVAL_S`."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(RETRY_INTERVAL_S):
                await self.pods.gone(key_of(pod))

    async def remove(self, pod: Pod, grace: int) -> None:
        """Deletes exactly this pod, with so many seconds of grace; it is no error if the pod is gone."""
        about = pod.metadata
        try:
            await self.connection.delete(PODS, about.namespace, about.name, grace=grace, uid=about.uid)
        except ApiError as error:
            if not (error.is_missing or error.is_conflict):
                raise
        else:
            self.on_change(pod, DELETED)


def pod_of(manifest: Mapping[str, Any]) -> Pod:
    """Converts a manifest into the fields of a pod that the backend uses."""
    return msgspec.convert(manifest, Pod)


def _retryable(detail: str) -> Exit:
    """Returns the end of a member that may succeed on another node."""
    return Exit(lost=True, end_class=REJECTED, detail=detail)


def end_of_refused(failed: str, error: Exception) -> Exit:
    """Returns the end of a member for which the API server has refused a request: final if the request is invalid.

    `failed`: which request, in words. An error that nothing foresees ends the member like a refusal.
    """
    if not isinstance(error, ApiError):
        return Exit(lost=True, end_class=REJECTED, detail=f"{failed}: {type(error).__name__}: {error}")
    end_class = INVALID if error.is_invalid else REJECTED
    return Exit(lost=True, end_class=end_class, detail=f"{failed}: {error}")
