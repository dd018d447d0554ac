"""Detection of the operator's own image."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from windlass.backends.kubernetes.client.api_errors import ApiError, Unreachable
from windlass.backends.kubernetes.settings import BackendSettings
from windlass.jobs.kubernetes.settings import AGENT_IMAGE, Settings
from windlass.server.operator.replica import with_operator_image


class Api:
    """Returns or raises the same answer for every request."""

    def __init__(self, answer: Any) -> None:
        self.answer = answer

    async def get(self, *_: Any) -> Any:
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer


def image(answer: Any) -> str:
    api: Any = Api(answer)
    return asyncio.run(
        with_operator_image(BackendSettings(Settings(agent_image="")), api, "windlass-system")
    ).kinds.agent_image


def test_a_pod_uses_its_own_image_and_a_process_outside_of_pods_the_released_one() -> None:
    containers = [{"name": "proxy", "image": "proxy:1"}, {"name": "operator", "image": "windlass:7"}]
    assert image({"spec": {"containers": containers}}) == "windlass:7"
    assert image(ApiError(404, "NotFound")) == AGENT_IMAGE


@pytest.mark.parametrize("trouble", [Unreachable("no connection"), ApiError(503), ApiError(403)], ids=str)
def test_an_unreachable_cluster_raises_and_selects_no_image(trouble: Exception) -> None:
    with pytest.raises(type(trouble)):
        image(trouble)
