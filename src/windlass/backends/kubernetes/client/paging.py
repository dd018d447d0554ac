"""A page of a list: its resource version, what continues it, and its objects as bytes still."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Generic, TypeVar

import msgspec

from windlass.backends.kubernetes.client.api_errors import Unreachable

T = TypeVar("T")
PAGE = 500
"""Objects on a page, as kubectl and client-go have it."""


@dataclass(frozen=True, slots=True)
class Listed(Generic[T]):
    """Every object as of one resource version."""

    resource_version: str
    objects: list[T]


@dataclass(frozen=True, slots=True)
class Page:
    """One reply. `rest` is the token that continues it, "" on the last."""

    resource_version: str
    rest: str
    items: list[msgspec.Raw]


class _Metadata(msgspec.Struct, rename="camel"):
    resource_version: str = ""
    rest: str = msgspec.field(default="", name="continue")


class _List(msgspec.Struct):
    metadata: _Metadata
    items: list[msgspec.Raw] | None = None
    """Null where there are none."""


_decoder = msgspec.json.Decoder(_List)


def read_page(body: bytes) -> Page:
    """Raises Unreachable if it is no list: whoever answered is not an API server."""
    try:
        said = _decoder.decode(body)
    except msgspec.DecodeError as error:
        raise Unreachable(f"the answer is no list of objects: {error}") from error
    return Page(said.metadata.resource_version, said.metadata.rest, said.items or [])
