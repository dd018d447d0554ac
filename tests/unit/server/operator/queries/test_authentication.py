"""Users of tokens: one review for all requests with a token, and bad tokens in no one's way."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from reviewing_api import ReviewingApi
from virtual_loop import run_in_virtual_time

from windlass.server.operator.queries.authentication import Authenticator


def authenticator_of(api: Any) -> Authenticator:
    return Authenticator(api)


def test_requests_with_one_token_share_a_review() -> None:
    async def story() -> None:
        api = ReviewingApi()
        authenticator = authenticator_of(api)
        found = await asyncio.gather(*(authenticator.review("good-ann") for _ in range(200)))
        assert {user.name for user in found if user} == {"ann"}
        assert await asyncio.gather(*(authenticator.review("bad-token") for _ in range(200))) == [None] * 200
        assert (await authenticator.review("good-ann"), await authenticator.review("bad-token")) == (found[0], None)
        assert api.asked == {"TokenReview": 2}

    run_in_virtual_time(story())


def test_any_number_of_bad_tokens_displaces_no_good_one() -> None:
    async def story() -> None:
        api = ReviewingApi(0)
        authenticator = authenticator_of(api)
        await authenticator.review("good-ann")
        for number in range(1_500):
            assert await authenticator.review(f"bad-{number}") is None
        asked = api.asked.copy()
        assert await authenticator.review("good-ann") is not None
        assert api.asked == asked

    run_in_virtual_time(story())


@pytest.mark.parametrize("token", ["", "ü", "\ud800", "a" * 16_385])
def test_text_that_can_be_no_token_is_not_sent(token: str) -> None:
    api = ReviewingApi()
    assert run_in_virtual_time(authenticator_of(api).review(token)) is None
    assert not api.asked
