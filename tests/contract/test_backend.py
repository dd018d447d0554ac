"""The contract of `windlass.backends.port`, for every backend."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from backend_host import BackendHost, Behaviour, ManualController, run_scenario

from windlass.backends.port import Backend, Changes
from windlass.controller.controller import Controller
from windlass.core.lifecycle.commands import Forget, Launch, Stop
from windlass.core.lifecycle.events import Event, GangGone, MemberExited, Started, Submitted
from windlass.core.lifecycle.state_machine import step
from windlass.core.lifecycle.transitions import create_state
from windlass.core.model.job import Job
from windlass.core.model.reasons import Gate
from windlass.core.model.status import Phase


async def registered(host: BackendHost, backend: Backend, job: Job, number: int) -> tuple[str, int, Job]:
    """Registers a job; returns the arguments of `create_state`."""
    job_id, read = await host.register(backend, job, number)
    return job_id, number, read


def has_exits(count: int) -> Callable[[list[Event]], bool]:
    return lambda events: sum(isinstance(event, MemberExited) for event in events) == count


def has_gone(events: list[Event]) -> bool:
    return any(isinstance(event, GangGone) for event in events)


def has_started(events: list[Event]) -> bool:
    return any(isinstance(event, Started) for event in events)


def test_a_launch_is_answered_by_started_and_one_exit_per_member(host: BackendHost) -> None:
    async def scenario() -> None:
        controller = ManualController(host, await host.open())
        controller.backend.recover()
        controller.backend.perform(await controller.admit(host.job(Behaviour.SUCCEED, replicas=2), host.nodes))
        await controller.until(has_exits(2))
        first, *exits = await controller.collect()
        assert first == Started(1)
        assert {exit.member: exit.exit.ok for exit in exits if isinstance(exit, MemberExited)} == {0: True, 1: True}
        assert len(exits) == 2

    run_scenario(host, scenario)


def test_a_failing_member_is_reported_with_its_exit_code(host: BackendHost) -> None:
    async def scenario() -> None:
        controller = ManualController(host, await host.open())
        controller.backend.recover()
        controller.backend.perform(await controller.admit(host.job(Behaviour.FAIL), host.nodes[:1]))
        await controller.until(has_exits(1))
        exit = next(event.exit for event in controller.events if isinstance(event, MemberExited))
        assert (exit.code, exit.signal, exit.lost) == (3, None, False)
        assert host.nodes[0] in exit.detail

    run_scenario(host, scenario)


def test_a_member_that_cannot_be_started_is_reported_with_the_reason(host: BackendHost) -> None:
    async def scenario() -> None:
        controller = ManualController(host, await host.open())
        controller.backend.recover()
        controller.backend.perform(await controller.admit(host.job(Behaviour.UNSTARTABLE), host.nodes[:1]))
        await controller.until(has_exits(1))
        exit = next(event.exit for event in controller.events if isinstance(event, MemberExited))
        assert not exit.ok
        assert "/no/such/program" in exit.detail

    run_scenario(host, scenario)


def test_a_stop_ends_every_member_and_is_answered_once(host: BackendHost) -> None:
    async def scenario() -> None:
        controller = ManualController(host, await host.open())
        controller.backend.recover()
        controller.backend.perform(await controller.admit(host.job(Behaviour.RUN, replicas=2), host.nodes))
        await controller.until(has_started)
        controller.backend.perform([Stop(controller.job_id, 1, grace=10_000), Stop(controller.job_id, 1, grace=10_000)])
        await controller.until(has_gone)
        events = await controller.collect()
        assert [type(event) for event in events] == [Started, MemberExited, MemberExited, GangGone]

    run_scenario(host, scenario)


def test_a_member_that_does_not_end_within_the_grace_is_killed(host: BackendHost) -> None:
    async def scenario() -> None:
        controller = ManualController(host, await host.open())
        controller.backend.recover()
        controller.backend.perform(await controller.admit(host.job(Behaviour.STUBBORN), host.nodes[:1]))
        await controller.until(has_started)
        controller.backend.perform([Stop(controller.job_id, 1, grace=50)])
        await controller.until(has_gone)

    run_scenario(host, scenario)


def test_a_stop_of_an_unknown_gang_is_answered_at_once(host: BackendHost) -> None:
    async def scenario() -> None:
        controller = ManualController(host, await host.open())
        controller.backend.recover()
        controller.backend.perform([Stop("job-7", 3, grace=60_000)])
        await controller.until(has_gone)
        assert await controller.collect() == [GangGone(3)]

    run_scenario(host, scenario)


def test_a_repeated_launch_starts_the_gang_once(host: BackendHost) -> None:
    async def scenario() -> None:
        controller = ManualController(host, await host.open())
        controller.backend.recover()
        launches = await controller.admit(host.job(Behaviour.SUCCEED), host.nodes[:1])
        controller.backend.perform(launches)
        controller.backend.perform(launches)
        await controller.until(has_exits(1))
        assert [type(event) for event in await controller.collect()] == [Started, MemberExited]

    run_scenario(host, scenario)


def test_a_wait_without_events_returns_at_its_time(host: BackendHost) -> None:
    async def scenario() -> None:
        backend = await host.open()
        backend.recover()
        due = backend.now() + 30
        assert await backend.wait(due) == []
        assert backend.now() >= due

    run_scenario(host, scenario)


def test_time_does_not_go_back_over_a_restart(host: BackendHost) -> None:
    async def scenario() -> None:
        backend = await host.open()
        backend.recover()
        before = backend.now()
        await host.abandon(backend)
        assert (await host.open()).now() >= before

    run_scenario(host, scenario)


def test_committed_states_outlive_the_controller(host: BackendHost) -> None:
    async def scenario() -> None:
        controller = ManualController(host, await host.open())
        controller.backend.recover()
        await controller.admit(host.job(Behaviour.SUCCEED), host.nodes[:1])
        ended_job = create_state(*await registered(host, controller.backend, host.job(Behaviour.SUCCEED), 2), 5)
        ended_job = replace(ended_job, status=replace(ended_job.status, phase=Phase.SUCCEEDED, finished_at=9))
        await controller.backend.commit(Changes(states=(ended_job,)))
        await host.abandon(controller.backend)

        backend = await host.open()
        assert backend.recover().states == (controller.state,)
        assert backend.finished(ended_job.id) == ended_job
        assert backend.finished(controller.job_id) is None

    run_scenario(host, scenario)


def test_a_job_with_a_begin_time_is_queued_until_then_under_every_controller(host: BackendHost) -> None:
    async def scenario() -> None:
        first = await host.open()
        first.recover()
        begin = 1000 * (first.now() // 1000 + 3600)
        late = replace(host.job(Behaviour.SUCCEED), begin=begin)
        waiting = create_state(*await registered(host, first, late, 1), first.now())
        waiting, _ = step(waiting, Submitted(), first.now())
        await first.commit(Changes(states=(waiting,)))
        await host.abandon(first)

        again = await host.open()
        recovered = again.recover()
        assert recovered.states == (waiting,)
        assert recovered.states[0].job.begin == begin
        controller = Controller(recovered, again.finished)
        controller.take_over(again.now())
        assert controller.plan.verdicts[waiting.id].gate is Gate.BEGIN_TIME
        assert controller.next_due() == begin

    run_scenario(host, scenario)


def test_an_ended_job_with_a_time_to_live_is_recovered_until_it_is_forgotten(host: BackendHost) -> None:
    async def scenario() -> None:
        job = replace(host.job(Behaviour.SUCCEED), ttl=1_000)
        backend = await host.open()
        backend.recover()
        ended_job = create_state(*await registered(host, backend, job, 1), 5)
        ended_job = replace(ended_job, status=replace(ended_job.status, phase=Phase.SUCCEEDED, finished_at=9))
        await backend.commit(Changes(states=(ended_job,)))
        await host.abandon(backend)

        backend = await host.open()
        assert backend.recover().states == (ended_job,)
        await backend.commit(Changes(forgotten=(ended_job.id,), commands=(Forget(ended_job.id),)))
        backend.perform([Forget(ended_job.id)])
        assert backend.finished(ended_job.id) is None
        await host.abandon(backend)
        assert (await host.open()).recover().states == ()

    run_scenario(host, scenario)


def test_an_event_that_was_not_committed_is_repeated(host: BackendHost) -> None:
    async def scenario() -> None:
        controller = ManualController(host, await host.open())
        controller.backend.recover()
        controller.backend.perform(await controller.admit(host.job(Behaviour.FAIL, replicas=2), host.nodes))
        await controller.until(has_exits(2))
        await host.abandon(controller.backend)

        again = ManualController(host, await host.open(), controller.state)
        again.backend.recover()
        await again.until(has_exits(2))
        assert sorted(map(repr, await again.collect())) == sorted(map(repr, controller.events))

    run_scenario(host, scenario)


def test_an_event_that_was_committed_is_not_repeated(host: BackendHost) -> None:
    async def scenario() -> None:
        controller = ManualController(host, await host.open())
        controller.backend.recover()
        controller.backend.perform(await controller.admit(host.job(Behaviour.FAIL), host.nodes[:1]))
        await controller.until(has_exits(1))
        await controller.turn(*controller.events)
        await host.abandon(controller.backend)

        again = ManualController(host, await host.open(), controller.state)
        again.backend.recover()
        again.backend.perform([Stop(again.job_id, 1, grace=1_000)])
        await again.until(has_gone)
        assert await again.collect() == [GangGone(1)]

    run_scenario(host, scenario)


def test_a_gang_outlives_its_controller_and_is_stopped_by_the_next(host: BackendHost) -> None:
    async def scenario() -> None:
        controller = ManualController(host, await host.open())
        controller.backend.recover()
        controller.backend.perform(await controller.admit(host.job(Behaviour.RUN), host.nodes[:1]))
        await controller.until(has_started)
        await controller.turn(*controller.events)
        await host.abandon(controller.backend)

        again = ManualController(host, await host.open(), controller.state)
        again.backend.recover()
        assert await again.collect() == []
        again.backend.perform([Stop(again.job_id, 1, grace=10_000)])
        await again.until(has_gone)
        assert [type(event) for event in again.events] == [MemberExited, GangGone]

    run_scenario(host, scenario)


def test_a_launch_that_was_committed_and_not_performed_is_performed_by_the_next_controller(host: BackendHost) -> None:
    async def scenario() -> None:
        controller = ManualController(host, await host.open())
        controller.backend.recover()
        (launch,) = await controller.admit(host.job(Behaviour.SUCCEED), host.nodes[:1])
        assert isinstance(launch, Launch)
        await host.abandon(controller.backend)

        again = ManualController(host, await host.open(), controller.state)
        again.backend.recover()
        again.backend.perform([launch])
        await again.until(has_exits(1))
        assert [type(event) for event in again.events] == [Started, MemberExited]

    run_scenario(host, scenario)
