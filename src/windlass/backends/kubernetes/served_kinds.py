"""Which of the kinds that mean something to us a cluster has, by what its API server says of itself."""

from __future__ import annotations

import asyncio

import orjson

from windlass.backends.kubernetes.client.api_errors import ApiError
from windlass.backends.kubernetes.client.connection import Connection
from windlass.backends.kubernetes.client.resources import Resource
from windlass.backends.kubernetes.watches import WATCHED


async def served_kinds(connection: Connection) -> tuple[Resource, ...]:
    """Those of the watched kinds that are not built in, and are there. Raises ApiError, Unreachable."""
    versions = sorted({kind.api_version for kind in WATCHED})
    lists = await asyncio.gather(*(_plurals(connection, version) for version in versions))
    there = dict(zip(versions, lists, strict=True))
    # of a kind that is there in several versions one tells of all its objects
    found = {kind.full_name: kind for kind in WATCHED if kind.plural in there[kind.api_version]}
    return tuple(found.values())


async def _plurals(connection: Connection, version: str) -> frozenset[str]:
    """The resources of one group and version."""
    try:
        found = orjson.loads(await connection.request("GET", f"/apis/{version}"))
    except ApiError as error:
        if not error.is_missing:
            raise
        return frozenset()
    return frozenset(each["name"] for each in found.get("resources") or ())
