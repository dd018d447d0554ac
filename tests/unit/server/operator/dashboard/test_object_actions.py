"""A second run of a job: one object, also where an answer of the API server is lost."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest

from windlass.backends.kubernetes.client.api_errors import ApiError, Unreachable
from windlass.backends.kubernetes.client.resources import CONFIG_MAPS, SECRETS
from windlass.backends.port import BackendError
from windlass.server.operator.dashboard import object_actions
from windlass.server.operator.dashboard.object_actions import create_once, keep_shipped

MANIFEST = {"metadata": {"namespace": "team-a", "name": "digits-x7k2p"}}


class FailingApi:
    """An API server whose changes fail with `error`; it has the object."""

    def __init__(self, error: BackendError) -> None:
        self.error, self.changed = error, list[str]()

    async def create(self, _resource: Any, _manifest: Any) -> dict[str, Any]:
        raise self.error

    async def get(self, _resource: Any, namespace: str, name: str) -> dict[str, Any]:
        return {"metadata": {"namespace": namespace, "name": name, "uid": "1"}}

    async def patch(self, _resource: Any, _namespace: str, name: str, _patch: Any, **_options: Any) -> None:
        self.changed.append(name)
        raise self.error


def exists(*, unsure: bool) -> ApiError:
    error = ApiError(409, "AlreadyExists", "exists already")
    error.unsure = unsure
    return error


def test_the_object_of_an_attempt_whose_answer_was_lost_is_the_second_run() -> None:
    api: Any = FailingApi(exists(unsure=True))
    assert asyncio.run(create_once(api, CONFIG_MAPS, MANIFEST))["metadata"]["uid"] == "1"


@pytest.mark.parametrize("error", [exists(unsure=False), Unreachable("no answer")])
def test_other_errors_of_a_creation_are_told(error: BackendError) -> None:
    api: Any = FailingApi(error)
    with pytest.raises(type(error)):
        asyncio.run(create_once(api, CONFIG_MAPS, MANIFEST))


@pytest.mark.parametrize("error", [ApiError(403, "Forbidden", "no right"), Unreachable("no answer")])
def test_a_second_run_whose_code_cannot_be_kept_is_no_error(
    error: BackendError, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        object_actions, "shipped_objects", lambda _parsed: [(CONFIG_MAPS, "code-1"), (SECRETS, "call-2")]
    )
    api: Any = FailingApi(error)
    gang: Any = SimpleNamespace(parsed=None, reference=SimpleNamespace(namespace="team-a"))
    asyncio.run(keep_shipped(api, gang, {}))
    assert api.changed == ["code-1", "call-2"]
