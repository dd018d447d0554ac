"""Bindings of external gangs that the API server refuses."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest
from external_pods import pod

from windlass.backends.kubernetes.client.api_errors import ApiError
from windlass.backends.kubernetes.external.external_binder import ExternalBinder
from windlass.backends.kubernetes.external.external_gang import Allocation, ExternalGang
from windlass.backends.kubernetes.pods.gang_binder import GangBinder
from windlass.core.lifecycle.failure import INVALID, REJECTED
from windlass.core.model.job import Job, Role
from windlass.jobs.kubernetes.external.membership import GangKey
from windlass.jobs.kubernetes.gang_dialects import Dialect
from windlass.wire import EndClass


class ClaimApi:
    """Refuses every request for a claim."""

    def __init__(self, status: int) -> None:
        self.status = status

    async def get(self, *_: Any, **__: Any) -> Any:
        raise ApiError(self.status)

    patch = get


@pytest.mark.parametrize(("status", "end_class"), [(422, INVALID), (403, REJECTED)])
def test_a_refused_volume_is_classified_like_that_of_our_own_pods(status: int, end_class: EndClass) -> None:
    async def story() -> None:
        ended = asyncio.Event()
        binding: Any = SimpleNamespace(connection=ClaimApi(status))
        placements: Any = SimpleNamespace(find_stale_node=lambda *_: None)
        binder = ExternalBinder(
            GangBinder(binding, placements),
            lambda _pod: ["data"],
            lambda _gang: ended.set(),
            lambda _text: None,
            b"key",
        )
        key = GangKey("team", "g", Dialect.COSCHEDULING)
        gang = ExternalGang("team/podgroup/g", "g", 1, key, Job("g", (Role("worker"),)), [pod("g-0")])
        allocation = Allocation(1, ["n1"])
        binder.launch(gang, allocation)
        await asyncio.wait_for(ended.wait(), 5)
        assert allocation.failed[0].end_class is end_class
        await binder.close()

    asyncio.run(story())
