"""The client of the API server: every verb that the backend needs, with retries where they are safe."""

from __future__ import annotations

import asyncio
import itertools
import random
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any, Self, TypeAlias, TypeVar

import orjson

from windlass.backends.kubernetes.client.access import Access
from windlass.backends.kubernetes.client.api_errors import INTERNAL_ERROR, ApiError, Outcome, Unreachable
from windlass.backends.kubernetes.client.paging import PAGE_SIZE, ObjectList, read_page
from windlass.backends.kubernetes.client.request_counters import RequestCounters
from windlass.backends.kubernetes.client.resources import PODS, Resource, path
from windlass.backends.kubernetes.client.retries import (
    APPLY_PATCH,
    JSON,
    JSON_PATCH,
    MERGE_PATCH,
    STRATEGIC_PATCH,
    is_repeatable,
    retry_delay,
)
from windlass.backends.kubernetes.client.shallow_json import decode_object
from windlass.backends.kubernetes.client.transport import Transport

T = TypeVar("T")
Object: TypeAlias = dict[str, Any]
Objects: TypeAlias = list[dict[str, Any]]
Body: TypeAlias = bytes | Mapping[str, Any] | Sequence[Any]
MANAGER = "windlass"
"""The field manager of server-side apply."""
_PATCHES = {"merge": MERGE_PATCH, "json": JSON_PATCH, "strategic": STRATEGIC_PATCH, "apply": APPLY_PATCH}


def _always() -> bool:
    return True


class Connection:
    """An async context manager around one pool of connections.

    Every verb raises ApiError, Unreachable, NotLeader or AccessError. `within`: seconds for a verb with all its
    attempts; `attempt`: seconds for one attempt. `may_write` is called before each attempt of a write, which raises
    NotLeader if it returns False. `counters` counts the requests.
    """

    def __init__(
        self,
        access: Access,
        *,
        may_write: Callable[[], bool] = _always,
        limit: int = 128,
        within: float = 30.0,
        attempt: float = 15.0,
        counters: RequestCounters | None = None,
    ) -> None:
        self.access = access
        self._within = within
        self._attempt = attempt
        self.counters = counters or RequestCounters()
        self._transport = Transport(access, may_write=may_write, limit=limit, counters=self.counters)

    async def __aenter__(self) -> Self:
        await self._transport.__aenter__()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._transport.__aexit__()

    async def request(
        self,
        method: str,
        path: str,
        *,
        body: Body | None = None,
        params: Mapping[str, str] | None = None,
        content_type: str = JSON,
        within: float | None = None,
        retry_500: bool = True,
    ) -> bytes:
        """Returns the reply's body. Retries by the rules of `retries`, for `within` seconds.

        `retry_500`: whether status 500 is retried like other failures with an unknown outcome.
        """
        loop = asyncio.get_running_loop()
        deadline = loop.time() + (self._within if within is None else within)
        data = body if body is None or isinstance(body, bytes) else orjson.dumps(body)
        unsure = False
        for attempt in itertools.count():
            seconds = max(0.001, min(self._attempt, deadline - loop.time()))
            try:
                return await self._transport.exchange(method, path, data, params or {}, content_type, seconds)
            except (ApiError, Unreachable) as error:  # a name that lives on would be a cycle of frame and error
                error.unsure = unsure = unsure or error.outcome is Outcome.UNKNOWN
                is_final = isinstance(error, ApiError) and error.status == INTERNAL_ERROR and not retry_500
                if is_final or not _may_repeat(error, method, path, body, content_type):
                    raise
                wait = retry_delay(attempt, getattr(error, "retry_after", None), random.random())  # noqa: S311 - no secret
                if loop.time() + wait >= deadline:
                    raise
            await asyncio.sleep(wait)
        raise AssertionError("unreachable: the attempts are endless")

    def stream(
        self, path: str, params: Mapping[str, str], silence: float
    ) -> AbstractAsyncContextManager[AsyncIterator[bytes]]:
        """Streams a watch's body in pieces; one attempt. See `Transport.stream`."""
        return self._transport.stream(path, params, silence)

    async def get(self, resource: Resource, namespace: str | None, name: str, *, within: float | None = None) -> Object:
        """Returns the current state of one object."""
        return _object(await self.request("GET", path(resource, namespace, name), within=within))

    async def create(
        self, resource: Resource, body: Mapping[str, Any], *, strict: bool = False, within: float | None = None
    ) -> Object:
        """Creates an object in the namespace that it names. See `ApiError.unsure` about AlreadyExists.

        `strict`: an unknown field is refused instead of dropped.
        """
        where = path(resource, body["metadata"].get("namespace"))
        params = {"fieldValidation": "Strict"} if strict else None
        return _object(await self.request("POST", where, body=body, params=params, within=within))

    async def replace(
        self, resource: Resource, body: Mapping[str, Any], *, subresource: str = "", within: float | None = None
    ) -> Object:
        """Replaces an object; a conflict if `body` names a resource version and the object has another."""
        metadata = body["metadata"]
        where = path(resource, metadata.get("namespace"), metadata["name"], subresource)
        return _object(await self.request("PUT", where, body=body, within=within))

    async def patch(  # noqa: PLR0913 - by name, and each with a default
        self,
        resource: Resource,
        namespace: str | None,
        name: str,
        body: Body,
        *,
        kind: str = "merge",
        subresource: str = "",
        force: bool = False,
        within: float | None = None,
        retry_500: bool = True,
    ) -> Object:
        """Patches an object. A resource version in a merge patch makes it conditional.

        `kind`: "merge", "json", "strategic" or "apply" (server-side, as the manager `windlass`; `force` takes fields
        from other managers).
        """
        params = {"fieldManager": MANAGER, "force": "true" if force else "false"} if kind == "apply" else {}
        where = path(resource, namespace, name, subresource)
        patch_type = _PATCHES[kind]
        reply = await self.request(
            "PATCH", where, body=body, params=params, content_type=patch_type, within=within, retry_500=retry_500
        )
        return _object(reply)

    async def delete(  # noqa: PLR0913 - by name, and each with a default
        self,
        resource: Resource,
        namespace: str | None,
        name: str,
        *,
        grace: int | None = None,
        propagation: str | None = None,
        uid: str | None = None,
        resource_version: str | None = None,
        within: float | None = None,
        retry_500: bool = True,
    ) -> Object:
        """Deletes an object; the reply is the object or a Status.

        `grace` in seconds. With `uid` or `resource_version` only that very object is deleted (else 409), and only then
        is the request retried after a lost reply.
        """
        preconditions = _given(uid=uid, resourceVersion=resource_version)
        options = _given(
            gracePeriodSeconds=grace,
            propagationPolicy=propagation,
            preconditions=preconditions or None,
        )
        body = {"kind": "DeleteOptions", "apiVersion": "v1", **options}
        where = path(resource, namespace, name)
        return _object(await self.request("DELETE", where, body=body, within=within, retry_500=retry_500))

    async def list(
        self,
        resource: Resource,
        namespace: str | None = None,
        *,
        selector: str | None = None,
        fields: str | None = None,
        within: float | None = None,
    ) -> Objects:
        """Returns all current objects of one namespace or of all, without fields that are nested too deep.

        See `list_decoded`.
        """
        found = await self.list_decoded(
            resource, decode_object, namespace=namespace, selector=selector, fields=fields, within=within
        )
        return found.objects

    async def list_decoded(
        self,
        resource: Resource,
        decode: Callable[[bytes], T | None],
        *,
        namespace: str | None = None,
        selector: str | None = None,
        fields: str | None = None,
        within: float | None = None,
    ) -> ObjectList[T]:
        """Returns all objects as of one resource version, from which a watch can continue.

        Objects for which `decode` returns None are left out. Reads in pages, so that no reply is large; an expired
        continuation starts over without pages. `within` is for each page.
        """
        where, asked = path(resource, namespace), _given(labelSelector=selector, fieldSelector=fields)
        objects: list[T] = []
        params = {**asked, "limit": str(PAGE_SIZE)}
        while True:
            try:
                page = read_page(await self.request("GET", where, params=params, within=within))
            except ApiError as error:
                if not error.is_gone or "continue" not in params:
                    raise
                objects, params = [], asked
                continue
            objects += [item for item in map(decode, map(bytes, page.items)) if item is not None]
            if not page.continuation:
                return ObjectList(page.resource_version, objects)
            params = {**asked, "limit": str(PAGE_SIZE), "continue": page.continuation}

    async def bind(
        self,
        namespace: str,
        pod: str,
        uid: str,
        node: str,
        *,
        annotations: Mapping[str, str] | None = None,
        within: float | None = None,
    ) -> None:
        """Binds a pod to a node and annotates it in the same write.

        A conflict if it is bound to another node, is being deleted, has scheduling gates, or is another pod of that
        name. The API server answers every failure of its storage with Conflict too (etcd is full, or restarts): then
        the pod still waits, and the binding is retried, and in the end reported as status 500.
        """
        loop = asyncio.get_running_loop()
        deadline = loop.time() + (self._within if within is None else within)
        metadata = {"name": pod, "namespace": namespace, "uid": uid, **_given(annotations=annotations)}
        target = {"apiVersion": "v1", "kind": "Node", "name": node}
        body = {"apiVersion": "v1", "kind": "Binding", "metadata": metadata, "target": target}
        where = path(PODS, namespace, pod, "binding")
        for attempt in itertools.count():
            try:
                await self.request("POST", where, body=body, within=deadline - loop.time())
            except ApiError as error:
                found = await find_object(self, PODS, namespace, pod) if error.is_conflict else None
                if found is not None and _is_bound(found, uid, node):
                    return
                if found is None or not _may_be_bound(found, uid):
                    raise
                wait = retry_delay(attempt, None, random.random())  # noqa: S311 - no secret
                if loop.time() + wait >= deadline:
                    raise ApiError(INTERNAL_ERROR, error.reason, error.message) from error
            else:
                return
            await asyncio.sleep(wait)

    async def evict(
        self, namespace: str, pod: str, grace: int | None = None, *, uid: str | None = None, within: float | None = None
    ) -> None:
        """Evicts a pod, unless a PodDisruptionBudget forbids it (`ApiError.is_budget`). `grace` in seconds."""
        preconditions = _given(uid=uid)
        options = _given(gracePeriodSeconds=grace, preconditions=preconditions or None)
        metadata = {"name": pod, "namespace": namespace}
        body = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": metadata, "deleteOptions": options}
        await self.request("POST", path(PODS, namespace, pod, "eviction"), body=body, within=within)


async def find_object(
    connection: Connection, resource: Resource, namespace: str | None, name: str, *, within: float | None = None
) -> Object | None:
    """Returns the current state of one object; None if it or its kind does not exist."""
    try:
        return await connection.get(resource, namespace, name, within=within)
    except ApiError as error:
        if error.is_missing:
            return None
        raise


@asynccontextmanager
async def stream_within(
    connection: Connection, path: str, params: Mapping[str, str], within: float, about: str
) -> AsyncIterator[AsyncIterator[bytes]]:
    """Streams a body that ends within some seconds. Raises Unreachable, with `about` as its subject, if not."""
    try:
        async with asyncio.timeout(within), connection.stream(path, params, within) as pieces:
            yield pieces
    except TimeoutError:
        raise Unreachable(f"{about} was not sent within {within:g} s") from None


async def list_if_served(connection: Connection, resource: Resource, namespace: str | None = None) -> Objects:
    """Returns all current objects of one namespace or of all; none if the cluster does not serve their kind."""
    try:
        return await connection.list(resource, namespace)
    except ApiError as error:
        if error.is_missing:
            return []
        raise


def _may_repeat(error: ApiError | Unreachable, method: str, path: str, body: Any, content_type: str) -> bool:
    if error.outcome is Outcome.UNKNOWN:
        return is_repeatable(method, path, body, content_type)
    return error.outcome is Outcome.NOT_DONE


def _is_bound(pod: Object, uid: str, node: str) -> bool:
    """Tells whether an earlier attempt has bound the pod, or the last request of an earlier leader."""
    return bool(pod["metadata"]["uid"] == uid and pod["spec"].get("nodeName") == node)


def _may_be_bound(pod: Object, uid: str) -> bool:
    """Tells whether nothing in the pod forbids its binding."""
    about, spec = pod["metadata"], pod["spec"]
    is_taken = spec.get("nodeName") or spec.get("schedulingGates")
    return about["uid"] == uid and not is_taken and not about.get("deletionTimestamp")


def _object(reply: bytes) -> Object:
    return orjson.loads(reply)  # type: ignore[no-any-return]


def _given(**options: Any) -> dict[str, Any]:
    """Returns the options that are not None."""
    return {name: value for name, value in options.items() if value is not None}
