"""Past usage of queues survives a change of leader in their objects."""

from __future__ import annotations

import asyncio
from typing import Any

from windlass.backends.kubernetes.status.queue_usage import FIELD, QueueUsageWriter, read_past_usage
from windlass.core.model.queue import PastUsage


class Patches:
    """An API server that accepts every status of a queue."""

    def __init__(self, queues: dict[str, dict[str, Any]]) -> None:
        self.queues = queues
        self.count = 0

    async def patch(self, _resource: object, _namespace: object, name: str, body: dict[str, Any], **_: object) -> None:
        self.count += 1
        self.queues[name] = {**self.queues[name], **body}


def test_noted_usage_is_known_to_the_next_leader() -> None:
    async def story() -> None:
        queues: dict[str, dict[str, Any]] = {"research": {"metadata": {"name": "research"}}}
        api = Patches(queues)
        memory = QueueUsageWriter(api, queues, lambda _text: None)  # type: ignore[arg-type]
        use = PastUsage(1_000, {"gpu": 2**45})
        memory.note({"research": use, "default": use})
        memory.note({})
        memory.note({"research": use})
        for _ in range(5):
            await asyncio.sleep(0)
        await memory.close()
        assert read_past_usage(queues) == {"research": use}
        assert api.count == 1

    asyncio.run(story())


def test_unreadable_usage_is_dropped() -> None:
    assert read_past_usage({"a": {"status": {FIELD: "?"}}, "b": {"status": {FIELD: 7}}, "c": {}}) == {}
