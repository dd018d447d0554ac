"""Splits JSON into its outermost values without decoding them, whatever their depth.

Decoders refuse values that are nested about a thousand levels deep, and the API server takes ten times that. One such
object must not make the list or the watch that contains it unreadable.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

import orjson

_TOKEN = re.compile(rb'"[^"\\]*(?:\\.[^"\\]*)*"|[][{},]', re.DOTALL)


def decode_object(body: bytes) -> dict[str, Any]:
    """Returns a decoded object without those fields, at its top or in its metadata, that are nested too deep.

    Raises ValueError if it is no object.
    """
    try:
        return dict(orjson.loads(body))
    except orjson.JSONDecodeError:
        found = members(body)
    kept = {name: value for name, text in found.items() if (value := _decoded(text)) is not None}
    if "metadata" in found and "metadata" not in kept:
        kept["metadata"] = {name: _decoded(text) for name, text in members(found["metadata"]).items()}
    return kept


def _decoded(text: bytes) -> Any:
    """Returns a value, or None if it is nested too deep."""
    try:
        return orjson.loads(text)
    except orjson.JSONDecodeError:
        return None


def members(body: bytes) -> Mapping[str, bytes]:
    """Returns the undecoded values of an object by name. Raises ValueError if a name cannot be read."""
    found = {}
    for part in elements(body):
        text = part.strip()
        name = _TOKEN.match(text)
        if name is None:
            raise ValueError(f"no member of an object: {text[:40]!r}")
        found[str(orjson.loads(name.group()))] = text[name.end() :].lstrip().removeprefix(b":").strip()
    return found


def elements(body: bytes) -> Iterator[bytes]:
    """Yields the undecoded elements of an array, or the members of an object with their names."""
    depth = start = 0
    for token in _TOKEN.finditer(body):
        mark = token.group()[:1]
        if mark in b"{[":
            depth += 1
            start = token.end() if depth == 1 else start
        elif mark in b"}]":
            depth -= 1
            if depth == 0:
                if last := body[start : token.start()].strip():
                    yield last
                return
        elif mark == b"," and depth == 1:
            yield body[start : token.start()].strip()
            start = token.end()
