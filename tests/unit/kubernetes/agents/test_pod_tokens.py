"""Reviews of agents' tokens: one at a time for a pod and an address, and none soon after a rejected token."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from windlass.backends.kubernetes.agents import pod_tokens
from windlass.backends.kubernetes.agents.pod_tokens import TokenReviews
from windlass.backends.kubernetes.pods.pod_binding import pod_of
from windlass.backends.port import BackendError
from windlass.jobs.kubernetes.pods.agent_pods import AUDIENCE

HERE, ELSEWHERE = "10.0.0.1", "10.0.0.9"


def pod(name: str) -> Any:
    return pod_of(
        {"metadata": {"name": name, "namespace": "team", "uid": name, "resourceVersion": "1"}, "spec": {}, "status": {}}
    )


class Api:
    """Answers reviews once `may_answer` is set: the token "of POD" is that of the pod."""

    def __init__(self) -> None:
        self.tokens: list[str] = []
        self.may_answer, self.asked = asyncio.Event(), asyncio.Event()
        self.error: BackendError | None = None

    async def request(self, _method: str, _path: str, *, body: Any, within: float) -> bytes:
        assert within
        token = body["spec"]["token"]
        self.tokens.append(token)
        self.asked.set()
        await self.may_answer.wait()
        if self.error is not None:
            raise self.error
        extra = {"authentication.kubernetes.io/pod-uid": [token.removeprefix("of ")]}
        user = {"username": "system:serviceaccount:team:default", "extra": extra}
        return json.dumps({"status": {"authenticated": True, "audiences": [AUDIENCE], "user": user}}).encode()


def test_one_review_is_under_way_for_a_pod_and_an_address() -> None:
    async def scenario() -> None:
        api: Any = Api()
        reviews = TokenReviews(api)
        first = asyncio.create_task(reviews.proves("of w-0", pod("w-0"), HERE))
        await api.asked.wait()
        with pytest.raises(BackendError, match="under way"):
            await reviews.proves("of w-0", pod("w-0"), HERE)
        others = asyncio.gather(
            reviews.proves("of w-0", pod("w-0"), ELSEWHERE), reviews.proves("of w-1", pod("w-1"), HERE)
        )
        api.may_answer.set()
        assert await first
        assert await others == [True, True]
        assert await reviews.proves("of w-0", pod("w-0"), HERE)
        assert len(api.tokens) == 4

    asyncio.run(scenario())


def test_no_token_is_reviewed_soon_after_a_rejected_one(monkeypatch: pytest.MonkeyPatch) -> None:
    async def scenario() -> None:
        api: Any = Api()
        api.may_answer.set()
        reviews = TokenReviews(api)
        assert not await reviews.proves("of w-1", pod("w-0"), HERE)
        for _ in range(3):
            with pytest.raises(BackendError):
                await reviews.proves("of w-0", pod("w-0"), HERE)
        assert api.tokens == ["of w-1"]
        assert await reviews.proves("of w-0", pod("w-0"), ELSEWHERE), "a stranger keeps no agent out"
        monkeypatch.setattr(pod_tokens, "_REFUSAL_S", 0.001)
        assert not await reviews.proves("of w-0", pod("w-1"), HERE)
        await asyncio.sleep(0.05)
        assert await reviews.proves("of w-1", pod("w-1"), HERE)

    asyncio.run(scenario())


def test_a_cancelled_review_counts_as_a_rejected_one() -> None:
    async def scenario() -> None:
        api: Any = Api()
        reviews = TokenReviews(api)
        review = asyncio.create_task(reviews.proves("of w-0", pod("w-0"), HERE))
        await api.asked.wait()
        review.cancel()
        await asyncio.gather(review, return_exceptions=True)
        with pytest.raises(BackendError):
            await reviews.proves("of w-0", pod("w-0"), HERE)

    asyncio.run(scenario())


def test_a_review_without_an_answer_may_be_repeated_at_once() -> None:
    async def scenario() -> None:
        api: Any = Api()
        api.may_answer.set()
        api.error = BackendError("no answer")
        reviews = TokenReviews(api)
        with pytest.raises(BackendError, match="no answer"):
            await reviews.proves("of w-0", pod("w-0"), HERE)
        api.error = None
        assert await reviews.proves("of w-0", pod("w-0"), HERE)

    asyncio.run(scenario())
