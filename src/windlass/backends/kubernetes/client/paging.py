"""A page of a list: its resource version, its continuation, and its objects as undecoded bytes.

`Connection.list_decoded` reads all pages into an `ObjectList`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Generic, TypeVar

import msgspec

from windlass.backends.kubernetes.client.api_errors import Unreachable
from windlass.backends.kubernetes.client.shallow_json import elements, members

T = TypeVar("T")
PAGE_SIZE = 500
"""Objects per page, as in kubectl and client-go."""


@dataclass(frozen=True, slots=True)
class ObjectList(Generic[T]):
    """A complete list of objects as of one resource version."""

    resource_version: str
    objects: list[T]


@dataclass(frozen=True, slots=True)
class Page:
    """One reply. `continuation` is the continuation token, "" on the last page."""

    resource_version: str
    continuation: str
    items: list[msgspec.Raw]


class _Metadata(msgspec.Struct, rename="camel"):
    resource_version: str = ""
    continuation: str = msgspec.field(default="", name="continue")


class _List(msgspec.Struct):
    metadata: _Metadata
    items: list[msgspec.Raw] | None = None
    """Null for an empty list."""


_decoder = msgspec.json.Decoder(_List)


def read_page(body: bytes) -> Page:
    """Parses a page. Raises Unreachable if it is no list: the peer is not an API server."""
    try:
        listed = _decoder.decode(body)
    except RecursionError:
        listed = _read_deep(body)
    except msgspec.DecodeError as error:
        raise Unreachable(f"the answer is no list of objects: {error}") from error
    return Page(listed.metadata.resource_version, listed.metadata.continuation, listed.items or [])


def _read_deep(body: bytes) -> _List:
    """Parses a page with an object that is nested too deep to be decoded; the object is one of the items."""
    found = members(body)
    metadata = msgspec.json.decode(found["metadata"], type=_Metadata)
    return _List(metadata, [msgspec.Raw(item) for item in elements(found.get("items", b"[]"))])
