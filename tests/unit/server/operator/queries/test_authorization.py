"""Rights of users: a storm of questions is few reviews, and a user with many questions delays no other."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from reviewing_api import ReviewingApi
from virtual_loop import run_in_virtual_time

from windlass.backends.kubernetes.client.reviews import User
from windlass.backends.port import BackendError
from windlass.server.operator.queries.authorization import Authorizer, query_right

TEAMS = [f"team-{number}" for number in range(400)]


def authorizer_of(api: Any) -> Authorizer:
    return Authorizer(api)


def test_equal_questions_share_a_review() -> None:
    async def story() -> None:
        api = ReviewingApi(allowed=frozenset({"team-1"}))
        authorizer = authorizer_of(api)
        asked = [authorizer.allows(User("ann"), query_right("list", "jobs", "team-1")) for _ in range(100)]
        assert await asyncio.gather(*asked) == [True] * 100
        assert api.asked == {"SubjectAccessReview": 1}

    run_in_virtual_time(story())


def test_a_user_of_many_namespaces_delays_no_other() -> None:
    async def story() -> None:
        api = ReviewingApi(0.1, frozenset({"team-1"}))
        authorizer = authorizer_of(api)
        many = asyncio.create_task(authorizer.hidden(User("ann"), TEAMS))
        await asyncio.sleep(1)
        begin = asyncio.get_running_loop().time()
        assert await authorizer.allows(User("bob"), query_right("get", "jobs", "team-1"))
        assert asyncio.get_running_loop().time() - begin < 0.2
        assert api.most <= 8
        assert await many == {*TEAMS} - {"team-1"}

    run_in_virtual_time(story())


def test_an_api_server_that_does_not_answer_is_an_error_in_time() -> None:
    async def story() -> None:
        authorizer = authorizer_of(ReviewingApi(1e9))
        with pytest.raises(BackendError, match="within 30 s"):
            await authorizer.allows(User("ann"), query_right("list", "jobs"))

    run_in_virtual_time(story())
