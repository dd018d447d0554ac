"""The label of the leader's pod, with a scripted API server."""

from __future__ import annotations

import asyncio
import socket
from typing import Any

import pytest

from windlass.backends.kubernetes.client.api_errors import ApiError
from windlass.server.operator import leader_label


class Api:
    """Records patches, and answers each with an error if there is one."""

    def __init__(self, error: Exception | None = None) -> None:
        self.patches: list[tuple[Any, ...]] = []
        self._error = error

    async def patch(self, *what: Any, **_: Any) -> None:
        self.patches.append(what[1:])
        if self._error is not None:
            raise self._error


def mark(api: Api, *, leads: bool = True) -> list[str]:
    told: list[str] = []
    asyncio.run(leader_label.mark_leader(api, "system", told.append, leads=leads))  # type: ignore[arg-type]
    return told


@pytest.fixture(autouse=True)
def in_a_pod(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(leader_label, "is_in_cluster", lambda: True)


@pytest.mark.parametrize(("leads", "value"), [(True, "true"), (False, None)])
def test_the_own_pod_gets_and_loses_the_label(leads: bool, value: str | None) -> None:
    api = Api()
    assert mark(api, leads=leads) == []
    assert api.patches == [("system", socket.gethostname(), {"metadata": {"labels": {"windlass.dev/leader": value}}})]


def test_a_refused_label_is_reported_and_a_missing_pod_is_not() -> None:
    assert mark(Api(ApiError(403, "Forbidden", "no"))) == ["cannot label the leader's pod: no"]
    assert mark(Api(ApiError(404, "NotFound", "none"))) == []


def test_a_process_outside_of_pods_labels_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(leader_label, "is_in_cluster", lambda: False)
    api = Api()
    assert mark(api) == []
    assert api.patches == []
