"""Mirrors a resource: lists it once, then watches from the list's version on, indefinitely and without gaps.

`mirror` holds the state, `watch` is one watch, `object_cache` the objects; the backend's watches call `reflect`.
"""

from __future__ import annotations

import asyncio
import functools
import random
from collections.abc import Awaitable, Callable, Sequence
from contextlib import aclosing
from typing import Never, TypeVar

from windlass.backends.errors import BackendError
from windlass.backends.kubernetes.client.access import AccessError
from windlass.backends.kubernetes.client.api_errors import ApiError, Unreachable
from windlass.backends.kubernetes.client.connection import Connection
from windlass.backends.kubernetes.client.mirror import Malformed, Mirror
from windlass.backends.kubernetes.client.object_cache import Change, ObjectCache
from windlass.backends.kubernetes.client.resources import Resource
from windlass.backends.kubernetes.client.retries import retry_delay
from windlass.backends.kubernetes.client.watch import SILENCE_TIMEOUT_S, Scope, watch

T = TypeVar("T")


def _ignored(_: object) -> None:
    pass


async def reflect(  # noqa: PLR0913 - one watch has this many sides; most callers name three
    connection: Connection,
    resource: Resource,
    *,
    decode: Callable[[bytes], T],
    apply: Callable[[Sequence[Change[T]]], None],
    synced: Callable[[], None],
    namespace: str | None = None,
    selector: str | None = None,
    fields: str | None = None,
    cache: ObjectCache[T] | None = None,
    malformed: Callable[[Malformed], None] = _ignored,
    trouble: Callable[[BackendError | None], None] = _ignored,
    is_removed: Callable[[], Awaitable[bool]] | None = None,
    silence: float = SILENCE_TIMEOUT_S,
) -> Never:
    """Lists, then watches; ends only by cancellation, or with an error of `apply` or `synced`.

    `apply` gets the changes, in order and in batches, and must not block; `synced` is called after the first list.
    `cache` holds the objects: a writer puts its replies there and applies those changes itself. `malformed` is called
    with objects on which `decode` raised: they are left out (an older state of them stays). `trouble` is called with
    each failure, and with None when it is over. `is_removed` is called when the server does not know the resource, and
    tells whether it has none of it any more: then all objects are deleted, and listed if it knows it again. `silence`
    in seconds.
    """
    scope = Scope(namespace, selector, fields)
    mirror = Mirror(decode, malformed, ObjectCache() if cache is None else cache)
    failures, in_trouble, report_synced = 0, False, functools.cache(synced)
    while True:
        error: BackendError | None = None
        try:
            # 1. list what may have been missed
            if mirror.must_list:
                listed = await connection.list_decoded(
                    resource, mirror.decode_listed, namespace=namespace, selector=selector, fields=fields
                )
                _hand(apply, mirror.apply_list(listed))
                report_synced()
            # 2. process events until the watch ends
            async with aclosing(watch(connection, resource, str(mirror.position), scope, silence)) as batches:
                async for batch in batches:
                    if in_trouble:
                        trouble(None)
                    in_trouble, failures = False, 0 if batch else failures
                    _hand(apply, mirror.apply_events(batch))
                    if mirror.must_list:
                        break
        except (ApiError, Unreachable, AccessError) as failed:
            error = failed
        # 3. continue from the last version; from a list, if that is too old
        if is_removed is not None and _is_missing(error) and await is_removed():
            _hand(apply, mirror.clear())
            report_synced()
        if isinstance(error, ApiError) and error.is_gone:
            mirror.must_list = True
        elif error is not None:
            trouble(error)
            in_trouble = True
        await asyncio.sleep(retry_delay(failures, getattr(error, "retry_after", None), random.random()))  # noqa: S311
        failures += 1


def _is_missing(error: BackendError | None) -> bool:
    return isinstance(error, ApiError) and error.is_missing


def _hand(apply: Callable[[Sequence[Change[T]]], None], changes: Sequence[Change[T]]) -> None:
    if changes:
        apply(changes)
