"""The steps that bind the members of a gang: repeated, refused, stopped."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from types import SimpleNamespace
from typing import Any

import pytest
from external_pods import pod
from virtual_loop import run_in_virtual_time

from windlass.backends.kubernetes.client.api_errors import ApiError, NotLeader, Unreachable
from windlass.backends.kubernetes.client.priority_limiter import PriorityLimiter
from windlass.backends.kubernetes.pods.gang_binder import GangBinder, MemberStep
from windlass.backends.kubernetes.pods.pod_binding import CannotBindError, NotWantedError, PodBinding
from windlass.core.lifecycle.events import Exit
from windlass.core.lifecycle.failure import INVALID, REJECTED
from windlass.wire import EndClass

UNUSED: Any = None


class Progress:
    def __init__(self) -> None:
        self.failed: dict[int, Exit] = {}
        self.stopping = False
        self.must_complete = False


class Replies:
    """Answers requests with these errors, one after the other, and then successfully."""

    def __init__(self, *errors: Exception) -> None:
        self.errors = list(errors)
        self.count = 0

    async def __call__(self) -> None:
        self.count += 1
        await asyncio.sleep(0.01)
        if self.errors:
            raise self.errors.pop(0)


def bind(progress: Progress, *requests: Callable[[], Awaitable[None]]) -> None:
    steps = [MemberStep(member, f"member {member}", request) for member, request in enumerate(requests)]
    run_in_virtual_time(GangBinder(UNUSED, UNUSED).bind(progress, steps))


def test_a_step_is_repeated_until_it_is_answered() -> None:
    progress, replies = Progress(), Replies(Unreachable("no answer"), NotLeader("the lease is late"))
    bind(progress, replies)
    assert (replies.count, progress.failed) == (3, {})


@pytest.mark.parametrize(("status", "end_class"), [(422, INVALID), (403, REJECTED)])
def test_a_refusal_is_the_end_of_its_member(status: int, end_class: EndClass) -> None:
    progress = Progress()
    bind(progress, Replies(), Replies(ApiError(status, message="no")))
    assert progress.failed == {1: Exit(lost=True, end_class=end_class, detail="member 1: no")}


END = Exit(lost=True, detail="etcd is full")
FAILURES = (
    ApiError(500, message="etcd is full"),
    CannotBindError(END, ApiError(500)),
    ApiError(403, message="exceeded quota"),
)
DENIAL = ApiError(403, message='pods is forbidden: User "operator" cannot create resource "pods" in API group ""')


@pytest.mark.parametrize("failure", FAILURES)
def test_a_gang_with_bound_members_outlasts_failures_of_the_api_server(failure: Exception) -> None:
    """A bound pod that no controller owns would be deleted for good, and the rest of its gang would wait forever."""
    progress, replies = Progress(), Replies(failure, failure)
    bind(progress, replies)
    assert (replies.count, list(progress.failed)) == (1, [0])

    progress, replies = Progress(), Replies(failure, failure)
    progress.must_complete = True
    bind(progress, replies)
    assert (replies.count, progress.failed) == (3, {})


@pytest.mark.parametrize("denial", [DENIAL, ApiError(401), CannotBindError(END, DENIAL)])
def test_any_gang_outlasts_denials_of_an_api_server_that_has_not_read_the_roles_yet(denial: Exception) -> None:
    progress, replies = Progress(), Replies(*[denial] * 19)
    bind(progress, replies)
    assert (replies.count, progress.failed) == (20, {})

    progress, replies = Progress(), Replies(*[denial] * 30)
    bind(progress, replies)
    assert (replies.count, list(progress.failed)) == (20, [0])


def test_a_gang_is_given_up_if_the_api_server_fails_for_long_or_refuses() -> None:
    lasting = [FAILURES[1]] * 30, [ApiError(403)] * 30
    for errors, count in ((lasting[0], 20), (lasting[1], 20), ([CannotBindError(END)], 1), ([ApiError(422)], 1)):
        progress, replies = Progress(), Replies(*errors)
        progress.must_complete = True
        bind(progress, replies)
        assert (replies.count, list(progress.failed)) == (count, [0])


def test_after_a_failure_no_step_is_repeated() -> None:
    progress, unanswered = Progress(), Replies(Unreachable("no answer"))
    end = Exit(lost=True, end_class=REJECTED, detail="bound elsewhere")
    bind(progress, Replies(CannotBindError(end)), unanswered)
    assert (unanswered.count, progress.failed) == (1, {0: end})


def test_no_step_is_taken_once_the_gang_is_stopped() -> None:
    progress, later = Progress(), Replies()

    async def stop() -> None:
        progress.stopping = True
        raise NotWantedError

    bind(progress, stop)
    bind(progress, later)
    assert (later.count, progress.failed) == (0, {})


@pytest.mark.parametrize(
    ("status", "may_pass"), [(500, True), (403, True), (401, True), (404, False), (409, False), (422, False)]
)
def test_the_refusal_of_a_binding_is_kept(status: int, may_pass: bool) -> None:
    async def bind(*_: object, **__: object) -> None:
        raise ApiError(status)

    async def story() -> CannotBindError:
        connection: Any = SimpleNamespace(bind=bind)
        binding = PodBinding(connection, PriorityLimiter(1), UNUSED, UNUSED)
        with pytest.raises(CannotBindError) as raised:
            await binding.bind(pod("p"), "n1")
        return raised.value

    refusal = asyncio.run(story()).refusal
    assert refusal is not None
    assert (refusal.status, refusal.may_pass) == (status, may_pass)


@pytest.mark.parametrize(("written", "grace"), [(0, 0), (None, 30), (5, 5)])
def test_a_pod_of_an_earlier_generation_has_the_grace_of_its_own_spec(written: int | None, grace: int) -> None:
    asked: list[int] = []

    async def delete(*_: object, grace: int, uid: str) -> None:
        assert uid == before.metadata.uid
        asked.append(grace)

    async def gone(_key: object) -> None:
        pass

    before = pod("p", node="n1", terminationGracePeriodSeconds=written)
    connection: Any = SimpleNamespace(delete=delete)
    pods: Any = SimpleNamespace(gone=gone)
    asyncio.run(PodBinding(connection, PriorityLimiter(1), pods, lambda _node: False)._clear(before))
    assert asked == [grace]
