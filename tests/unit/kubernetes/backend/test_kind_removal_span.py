"""A kind counts as removed only when the API server has not known it for a span without a break."""

from __future__ import annotations

import asyncio
from typing import Any, cast

import pytest

from windlass.backends.kubernetes import served_kinds
from windlass.backends.kubernetes.backend import KubernetesBackend
from windlass.backends.kubernetes.client.api_errors import ApiError
from windlass.backends.kubernetes.client.connection import Connection
from windlass.backends.kubernetes.served_kinds import JOB_KINDS, REMOVED_AFTER_S, KindRemoval
from windlass.backends.kubernetes.watches import Watches


class UnknowingServer:
    """An API server that does not know the kind."""

    async def request(self, *_: Any, **__: Any) -> bytes:
        raise ApiError(404, "NotFound", "the server could not find the requested resource")


@pytest.mark.parametrize("is_served_between", [True, False])
def test_a_kind_that_was_served_in_between_is_not_removed_by_the_next_refusal(
    monkeypatch: pytest.MonkeyPatch, *, is_served_between: bool
) -> None:
    removal = KindRemoval(cast(Connection, UnknowingServer()), JOB_KINDS[0])
    watches = Watches(cast(KubernetesBackend, None), lambda: None)
    monkeypatch.setattr(served_kinds.time, "monotonic", lambda: 100.0)
    assert not asyncio.run(removal.is_removed())
    if is_served_between:
        watches._trouble(removal, None)  # as the reflector does when its watch works again
    monkeypatch.setattr(served_kinds.time, "monotonic", lambda: 100.0 + REMOVED_AFTER_S)
    assert asyncio.run(removal.is_removed()) is not is_served_between
