"""Events of one object: what is read of an answer that a hostile user can make large."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any

import pytest

from windlass.backends.kubernetes.client.api_errors import Unreachable
from windlass.backends.kubernetes.client.pod_events import PodEvent, list_events

MOUNT = {"type": "Warning", "reason": "FailedMount", "message": "no such volume"}


class Api:
    """Streams one answer in pieces of 64 KiB, and counts them."""

    def __init__(self, items: list[dict[str, Any]]) -> None:
        self.body = json.dumps({"items": items}).encode()
        self.pieces = 0

    @asynccontextmanager
    async def stream(self, _path: str, _params: Mapping[str, str], _silence: float) -> AsyncIterator[Any]:
        async def pieces() -> AsyncIterator[bytes]:
            for start in range(0, len(self.body), 1 << 16):
                self.pieces += 1
                yield self.body[start : start + (1 << 16)]

        yield pieces()


def test_events_of_an_object_are_read() -> None:
    api: Any = Api([MOUNT])
    assert asyncio.run(list_events(api, "team", "u1")) == (PodEvent("Warning", "FailedMount", "no such volume"),)


def test_no_more_than_a_megabyte_is_read() -> None:
    api: Any = Api([{**MOUNT, "message": "<" * (1 << 20)}] * 100)
    with pytest.raises(Unreachable, match="more than 1024 KiB"):
        asyncio.run(list_events(api, "team", "u1"))
    assert api.pieces == 17
