"""The contract of `windlass.backends.port`, for every world."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from place import Behaviour, Place, Stagehand, play

from windlass.backends.port import Backend, Changes
from windlass.core.lifecycle.commands import Forget, Launch, Stop
from windlass.core.lifecycle.events import Event, GangGone, MemberExited, Started
from windlass.core.lifecycle.transitions import create_state
from windlass.core.model.job import Job
from windlass.core.model.status import Phase


async def enter(place: Place, backend: Backend, job: Job, number: int) -> tuple[str, int, Job]:
    """What `created` wants of a job that is handed in."""
    job_id, read = await place.hand_in(backend, job, number)
    return job_id, number, read


def ended(count: int) -> Callable[[list[Event]], bool]:
    return lambda heard: sum(isinstance(event, MemberExited) for event in heard) == count


def gone(heard: list[Event]) -> bool:
    return any(isinstance(event, GangGone) for event in heard)


def started(heard: list[Event]) -> bool:
    return any(isinstance(event, Started) for event in heard)


def test_a_launch_is_answered_by_started_and_then_by_one_exit_a_member(place: Place) -> None:
    async def story() -> None:
        hand = Stagehand(place, await place.open())
        hand.backend.recover()
        hand.backend.perform(await hand.admit(place.job(Behaviour.SUCCEED, replicas=2), place.nodes))
        await hand.until(ended(2))
        first, *exits = await hand.settle()
        assert first == Started(1)
        assert {exit.member: exit.exit.ok for exit in exits if isinstance(exit, MemberExited)} == {0: True, 1: True}
        assert len(exits) == 2

    play(place, story)


def test_a_failing_member_says_how_it_ended(place: Place) -> None:
    async def story() -> None:
        hand = Stagehand(place, await place.open())
        hand.backend.recover()
        hand.backend.perform(await hand.admit(place.job(Behaviour.FAIL), place.nodes[:1]))
        await hand.until(ended(1))
        exit = next(event.exit for event in hand.heard if isinstance(event, MemberExited))
        assert (exit.code, exit.signal, exit.lost) == (3, None, False)
        assert place.nodes[0] in exit.detail

    play(place, story)


def test_a_member_that_cannot_be_started_has_ended_with_the_reason(place: Place) -> None:
    async def story() -> None:
        hand = Stagehand(place, await place.open())
        hand.backend.recover()
        hand.backend.perform(await hand.admit(place.job(Behaviour.UNSTARTABLE), place.nodes[:1]))
        await hand.until(ended(1))
        exit = next(event.exit for event in hand.heard if isinstance(event, MemberExited))
        assert not exit.ok
        assert "/no/such/program" in exit.detail

    play(place, story)


def test_a_stop_ends_every_member_and_is_answered_once(place: Place) -> None:
    async def story() -> None:
        hand = Stagehand(place, await place.open())
        hand.backend.recover()
        hand.backend.perform(await hand.admit(place.job(Behaviour.RUN, replicas=2), place.nodes))
        await hand.until(started)
        hand.backend.perform([Stop(hand.job_id, 1, grace=10_000), Stop(hand.job_id, 1, grace=10_000)])
        await hand.until(gone)
        heard = await hand.settle()
        assert [type(event) for event in heard] == [Started, MemberExited, MemberExited, GangGone]

    play(place, story)


def test_who_does_not_end_within_the_grace_is_killed(place: Place) -> None:
    async def story() -> None:
        hand = Stagehand(place, await place.open())
        hand.backend.recover()
        hand.backend.perform(await hand.admit(place.job(Behaviour.STUBBORN), place.nodes[:1]))
        await hand.until(started)
        hand.backend.perform([Stop(hand.job_id, 1, grace=50)])
        await hand.until(gone)

    play(place, story)


def test_a_stop_of_what_has_ended_or_never_was_is_answered_at_once(place: Place) -> None:
    async def story() -> None:
        hand = Stagehand(place, await place.open())
        hand.backend.recover()
        hand.backend.perform([Stop("job-7", 3, grace=60_000)])
        await hand.until(gone)
        assert await hand.settle() == [GangGone(3)]

    play(place, story)


def test_a_launch_told_twice_starts_once(place: Place) -> None:
    async def story() -> None:
        hand = Stagehand(place, await place.open())
        hand.backend.recover()
        launches = await hand.admit(place.job(Behaviour.SUCCEED), place.nodes[:1])
        hand.backend.perform(launches)
        hand.backend.perform(launches)
        await hand.until(ended(1))
        assert [type(event) for event in await hand.settle()] == [Started, MemberExited]

    play(place, story)


def test_wait_returns_empty_when_its_time_has_come(place: Place) -> None:
    async def story() -> None:
        backend = await place.open()
        backend.recover()
        due = backend.now() + 30
        assert await backend.wait(due) == []
        assert backend.now() >= due

    play(place, story)


def test_time_does_not_go_back_over_a_restart(place: Place) -> None:
    async def story() -> None:
        backend = await place.open()
        backend.recover()
        before = backend.now()
        await place.abandon(backend)
        assert (await place.open()).now() >= before

    play(place, story)


def test_what_was_committed_is_there_after_the_controller_died(place: Place) -> None:
    async def story() -> None:
        hand = Stagehand(place, await place.open())
        hand.backend.recover()
        await hand.admit(place.job(Behaviour.SUCCEED), place.nodes[:1])
        ended_job = create_state(*await enter(place, hand.backend, place.job(Behaviour.SUCCEED), 2), 5)
        ended_job = replace(ended_job, status=replace(ended_job.status, phase=Phase.SUCCEEDED, finished_at=9))
        await hand.backend.commit(Changes(states=(ended_job,)))
        await place.abandon(hand.backend)

        backend = await place.open()
        assert backend.recover().states == (hand.state,)
        assert backend.finished(ended_job.id) == ended_job
        assert backend.finished(hand.job_id) is None

    play(place, story)


def test_an_ended_job_with_a_time_to_live_is_recovered_until_it_is_forgotten(place: Place) -> None:
    async def story() -> None:
        job = replace(place.job(Behaviour.SUCCEED), ttl=1_000)
        backend = await place.open()
        backend.recover()
        ended_job = create_state(*await enter(place, backend, job, 1), 5)
        ended_job = replace(ended_job, status=replace(ended_job.status, phase=Phase.SUCCEEDED, finished_at=9))
        await backend.commit(Changes(states=(ended_job,)))
        await place.abandon(backend)

        backend = await place.open()
        assert backend.recover().states == (ended_job,)
        await backend.commit(Changes(forgotten=(ended_job.id,), commands=(Forget(ended_job.id),)))
        backend.perform([Forget(ended_job.id)])
        assert backend.finished(ended_job.id) is None
        await place.abandon(backend)
        assert (await place.open()).recover().states == ()

    play(place, story)


def test_an_event_that_was_told_and_not_committed_is_told_again(place: Place) -> None:
    async def story() -> None:
        hand = Stagehand(place, await place.open())
        hand.backend.recover()
        hand.backend.perform(await hand.admit(place.job(Behaviour.FAIL, replicas=2), place.nodes))
        await hand.until(ended(2))
        await place.abandon(hand.backend)

        again = Stagehand(place, await place.open(), hand.state)
        again.backend.recover()
        await again.until(ended(2))
        assert sorted(map(repr, await again.settle())) == sorted(map(repr, hand.heard))

    play(place, story)


def test_an_event_that_was_committed_is_not_told_again(place: Place) -> None:
    async def story() -> None:
        hand = Stagehand(place, await place.open())
        hand.backend.recover()
        hand.backend.perform(await hand.admit(place.job(Behaviour.FAIL), place.nodes[:1]))
        await hand.until(ended(1))
        await hand.turn(*hand.heard)
        await place.abandon(hand.backend)

        again = Stagehand(place, await place.open(), hand.state)
        again.backend.recover()
        again.backend.perform([Stop(again.job_id, 1, grace=1_000)])
        await again.until(gone)
        assert await again.settle() == [GangGone(1)]

    play(place, story)


def test_a_gang_outlives_its_controller_and_ends_before_the_next(place: Place) -> None:
    async def story() -> None:
        hand = Stagehand(place, await place.open())
        hand.backend.recover()
        hand.backend.perform(await hand.admit(place.job(Behaviour.RUN), place.nodes[:1]))
        await hand.until(started)
        await hand.turn(*hand.heard)
        await place.abandon(hand.backend)

        again = Stagehand(place, await place.open(), hand.state)
        again.backend.recover()
        assert await again.settle() == []
        again.backend.perform([Stop(again.job_id, 1, grace=10_000)])
        await again.until(gone)
        assert [type(event) for event in again.heard] == [MemberExited, GangGone]

    play(place, story)


def test_a_launch_that_was_committed_and_not_performed_is_performed_by_the_next(place: Place) -> None:
    async def story() -> None:
        hand = Stagehand(place, await place.open())
        hand.backend.recover()
        (launch,) = await hand.admit(place.job(Behaviour.SUCCEED), place.nodes[:1])
        assert isinstance(launch, Launch)
        await place.abandon(hand.backend)

        again = Stagehand(place, await place.open(), hand.state)
        again.backend.recover()
        again.backend.perform([launch])
        await again.until(ended(1))
        assert [type(event) for event in again.heard] == [Started, MemberExited]

    play(place, story)
