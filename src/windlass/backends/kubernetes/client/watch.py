"""One watch: from a resource version on, until the server ends it or it is silent for too long."""

from __future__ import annotations

import random
from collections.abc import AsyncGenerator
from dataclasses import dataclass

import msgspec
import orjson

from windlass.backends.kubernetes.client.api_errors import Unreachable, error_of_status
from windlass.backends.kubernetes.client.connection import Connection
from windlass.backends.kubernetes.client.resources import Resource, path
from windlass.backends.kubernetes.client.shallow_json import members

SILENCE_TIMEOUT_S = 90.0
"""Seconds without a byte after which a watch may be dead. A bookmark comes about once a minute, but none where nothing
has happened since the last.
"""
_WATCH_DURATION_S = 240
"""Seconds for which the server is asked to keep a watch; up to a quarter more, so that not all end together."""


@dataclass(frozen=True, slots=True)
class Scope:
    """The objects of a resource to watch: of one namespace or of all, by label and field selectors."""

    namespace: str | None = None
    selector: str | None = None
    fields: str | None = None


class Event(msgspec.Struct, gc=False):
    """One line of a watch. `type` is ADDED, MODIFIED, DELETED, BOOKMARK or ERROR; the object is not decoded yet."""

    type: str
    object: msgspec.Raw


_decoder = msgspec.json.Decoder(Event)


async def watch(
    connection: Connection, resource: Resource, position: str, scope: Scope, silence: float = SILENCE_TIMEOUT_S
) -> AsyncGenerator[list[Event], None]:
    """Yields batches of events after the resource version `position`.

    Ends when the server ends it, or after `silence` seconds without a byte; a new watch may continue from the last
    event. The first batch is empty: the server has accepted the watch.

    Raises ApiError also for errors that come as an event (`is_gone`: too old, list again), and Unreachable for a
    connection that broke, or a server that did not accept in time.
    """
    params = {
        "watch": "1",
        "allowWatchBookmarks": "true",
        "resourceVersion": position,
        "timeoutSeconds": str(round(_WATCH_DURATION_S * (1 + random.random() / 4))),  # noqa: S311 - no secret
    }
    if scope.selector:
        params["labelSelector"] = scope.selector
    if scope.fields:
        params["fieldSelector"] = scope.fields
    async with connection.stream(path(resource, scope.namespace), params, silence) as pieces:
        yield []
        rest = b""
        async for piece in pieces:
            whole, rest = split_lines(rest + piece)
            events = [read_event(line) for line in whole]
            errors = [index for index, event in enumerate(events) if event.type == "ERROR"]
            yield events[: errors[0]] if errors else events
            if errors:
                raise error_of_status(orjson.loads(bytes(events[errors[0]].object)))


def split_lines(text: bytes) -> tuple[list[bytes], bytes]:
    """Returns the complete lines, and the rest of an incomplete one."""
    *whole, rest = text.split(b"\n")
    return [line for line in whole if line], rest


def read_event(line: bytes) -> Event:
    """Decodes an event. Raises Unreachable if it is none: the peer is not an API server."""
    try:
        return _decoder.decode(line)
    except RecursionError:  # the object is nested too deep to be decoded
        found = members(line)
        return Event(str(orjson.loads(found["type"])), msgspec.Raw(found["object"]))
    except msgspec.DecodeError as error:
        raise Unreachable(f"the watch sent what is no event: {error}") from error
