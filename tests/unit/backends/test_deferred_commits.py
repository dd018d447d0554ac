"""A job whose state cannot be written waits, and all others go on."""

from __future__ import annotations

import asyncio
import itertools
import sys
from collections.abc import Callable
from dataclasses import replace
from types import FrameType
from typing import Any

from windlass.backends.deferred_commits import (
    INITIAL_BACKOFF_MS,
    MAX_BACKOFF_MS,
    RETRIES_AT_ONCE,
    DeferredCommits,
    retry_wait,
)
from windlass.backends.port import Changes, ClusterChanged, JobArrived, JobEvent, Transition
from windlass.backends.simulator.backend import SimulationOver, SimulatorBackend
from windlass.backends.simulator.script import Script
from windlass.backends.simulator.universe import Universe
from windlass.controller.controller import Controller, run
from windlass.core.lifecycle.commands import Launch, RestartMember, Stop
from windlass.core.lifecycle.events import NotLaunched
from windlass.core.lifecycle.transitions import create_state
from windlass.core.model.job import Condition, Dependency, Job, Role
from windlass.core.model.node import Node
from windlass.core.model.queue import Queue
from windlass.core.model.status import JobState, Phase, Placement

PLACEMENT = Placement({"worker": ("n1",)})
REFUSED = {"a-1": "the webhook is down"}
FIRST_DUE = retry_wait("a-1", 0)


def state(job_id: str, generation: int = 0) -> JobState:
    fresh = create_state(job_id, 1, Job("j", (Role(),)), 0)
    return replace(fresh, status=replace(fresh.status, generation=generation))


def turn(*job_ids: str, generation: int = 1) -> Changes:
    return Changes(
        states=tuple(state(job_id, generation) for job_id in job_ids),
        transitions=tuple(Transition(job_id, 0, "Admit", "", "", f"start {generation}") for job_id in job_ids),
        commands=tuple(Launch(job_id, generation, PLACEMENT) for job_id in job_ids),
    )


def deferred(reports: list[str] | None = None) -> DeferredCommits:
    """One in which job a-1 was deferred at time 0."""
    found = DeferredCommits((reports if reports is not None else []).append)
    commands = found.settle(found.select(turn("a-1", "b-1"), 0), REFUSED, 0)
    assert commands == (Launch("b-1", 1, PLACEMENT),)
    return found


def test_a_turn_without_failures_passes_unchanged() -> None:
    found, changes = DeferredCommits(print), turn("a-1", "b-1")
    assert found.select(changes, 0) is changes
    assert found.settle(changes, {}, 0) == changes.commands
    assert (found.next_due(), found.reasons) == (None, {})


def test_a_deferred_job_is_left_out_until_its_retry_is_due() -> None:
    found = deferred()
    assert (found.next_due(), found.reasons) == (FIRST_DUE, REFUSED)
    assert found.select(turn("b-1"), FIRST_DUE - 1) == turn("b-1")
    retried = found.select(Changes(), FIRST_DUE)
    assert retried == replace(turn("a-1"), commands=())
    assert found.settle(retried, {}, FIRST_DUE) == ()
    assert found.select(Changes(), 10 * FIRST_DUE) == Changes()


def test_a_retry_writes_the_latest_state_and_performs_the_commands_in_order() -> None:
    found = deferred()
    later = replace(turn("a-1", generation=2), commands=(RestartMember("a-1", 1, 0), Stop("a-1", 1, 0)))
    assert found.select(later, 1) == Changes()
    assert found.state_of("a-1") == state("a-1", 2)
    assert found.state_of("b-1") is None
    retried = found.select(Changes(), FIRST_DUE)
    assert retried.states == (state("a-1", 2),)
    assert [each.message for each in retried.transitions] == ["start 1", "start 2"]
    assert retried.commands == (RestartMember("a-1", 1, 0), Stop("a-1", 1, 0)), "the first start was taken back"


def test_a_launch_that_is_not_performed_is_reported_once() -> None:
    found = deferred()
    why = "its state could not be written: the webhook is down"
    assert found.take_withheld_launches() == [JobEvent("a-1", NotLaunched(1, why))]
    assert found.take_withheld_launches() == []
    assert found.select(turn("a-1", generation=2), 1) == Changes()
    assert found.take_withheld_launches() == [JobEvent("a-1", NotLaunched(2, why))]


def test_a_launch_of_an_earlier_controller_is_held_back_and_not_withdrawn() -> None:
    found, repeated = DeferredCommits(print), Launch("a-1", 1, PLACEMENT, is_repeated=True)
    found.settle(found.select(replace(turn("a-1"), commands=(repeated,)), 0), REFUSED, 0)
    assert found.take_withheld_launches() == []
    assert found.select(Changes(), FIRST_DUE).commands == (repeated,)


def test_a_launch_is_performed_if_the_retry_of_the_same_turn_succeeds() -> None:
    found = deferred()
    found.take_withheld_launches()
    retried = found.select(turn("a-1", generation=2), FIRST_DUE)
    assert found.settle(retried, {}, FIRST_DUE) == (Launch("a-1", 2, PLACEMENT),)
    assert found.take_withheld_launches() == []


def test_the_wait_doubles_up_to_a_limit_and_a_reason_is_reported_once() -> None:
    reports: list[str] = []
    found, waits = deferred(reports), []
    for _ in range(9):
        now = found.next_due() or 0
        found.settle(found.select(Changes(), now), REFUSED, now)
        waits.append((found.next_due() or 0) - now)
    longest = [2_000, 4_000, 8_000, 16_000, 32_000, *[MAX_BACKOFF_MS] * 4]
    assert waits == [retry_wait("a-1", failures) for failures in range(1, 10)]
    assert all(limit * 3 / 4 < wait <= limit for wait, limit in zip(waits, longest, strict=True))
    assert len(reports) == 1
    assert "a-1" in reports[0]
    now = found.next_due() or 0
    found.settle(found.select(Changes(), now), {"a-1": "forbidden"}, now)
    assert len(reports) == 2


def test_jobs_that_fail_together_are_retried_at_different_times() -> None:
    waits = {retry_wait(f"j-{number}", 6) for number in range(1_000)}
    assert len(waits) > 900
    assert INITIAL_BACKOFF_MS * 3 / 4 < retry_wait("j-1", 0) <= INITIAL_BACKOFF_MS


def test_slow_retries_take_a_tenth_of_the_time_at_most() -> None:
    jobs = [f"j-{number}" for number in range(200)]
    refused = dict.fromkeys(jobs, "did not answer in time")
    found = DeferredCommits(lambda _text: None)
    found.settle(found.select(turn(*jobs), 0), refused, 0)
    now, slow = found.next_due() or 0, 0
    while now < 1_000_000:
        retried = {state.id: "did not answer in time" for state in found.select(Changes(), now).states}
        assert 0 < len(retried) <= RETRIES_AT_ONCE
        now, slow = now + 3_000, slow + 3_000
        found.settle(turn(*retried), retried, now)
        now = found.next_due() or 0
    assert slow <= 1_000_000 / 10 + 3_000


def test_no_job_is_left_out_when_more_are_due_than_are_retried_at_once() -> None:
    jobs = [f"j-{number}" for number in range(3 * RETRIES_AT_ONCE)]
    found, written = DeferredCommits(lambda _text: None), 0
    found.settle(found.select(turn(*jobs), 0), dict.fromkeys(jobs, "HTTP 500"), 0)
    for _ in range(3):
        retried = found.select(Changes(), MAX_BACKOFF_MS)
        found.settle(retried, {}, MAX_BACKOFF_MS)
        written += len(retried.states)
    assert (written, found.next_due()) == (len(jobs), None)


def test_the_work_grows_in_proportion_to_the_deferred_jobs() -> None:
    """The number of executed bytecodes doubles with the jobs; it is four times as high if each looks at all others."""
    assert count_bytecodes(400) < 2.5 * count_bytecodes(200)


def count_bytecodes(job_count: int) -> int:
    """Bytecodes that three steps with so many refused jobs execute."""
    jobs = [f"j-{number}" for number in range(job_count)]
    found, refused, whole = DeferredCommits(lambda _text: None), dict.fromkeys(jobs, "HTTP 500"), turn(*jobs)
    executed = itertools.count()

    def trace(frame: FrameType, event: str, _argument: object) -> Callable[..., Any]:
        frame.f_trace_opcodes = True
        if event == "opcode":
            next(executed)
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        found.settle(found.select(whole, 0), refused, 0)
        found.select(whole, MAX_BACKOFF_MS)
    finally:
        sys.settrace(before)
    return next(executed)


# --- the controller on a backend that refuses one job ---------------------------------------------------


def drive(jobs: dict[str, Job], refusal: Callable[[int, str], str], node_count: int = 4) -> tuple[Universe, list[str]]:
    """The universe after all jobs have ended; each works for 10 s on a node with one GPU."""
    nodes = tuple(Node(f"n{number}", {"gpu": 1}) for number in range(node_count))
    universe = Universe(ClusterChanged(nodes, (Queue("default"),)), lambda _id, _job: Script(10_000))
    for number, (job_id, job) in enumerate(jobs.items(), start=1):
        universe.timeline.arrive(0, JobArrived(job_id, number, job))
    backend = SimulatorBackend(universe, refusal=lambda job_id: refusal(universe.timeline.now, job_id))
    reports: list[str] = []

    async def whole() -> None:
        controller = Controller(backend.recover(), backend.finished)
        try:
            await run(controller, backend, on_trouble=reports.append)
        except SimulationOver:
            return

    asyncio.run(whole())
    return universe, reports


def test_one_refused_job_holds_up_no_other() -> None:
    job = Job("j", (Role(resources={"gpu": 1}),))
    universe, reports = drive(
        {"a-1": job, "b-1": job}, lambda now, job_id: "HTTP 500" if job_id == "a-1" and now < 100_000 else ""
    )
    ends = {job_id: state.status for job_id, state in universe.states.items()}
    assert {status.phase for status in ends.values()} == {Phase.SUCCEEDED}
    assert ends["b-1"].finished_at == 10_000
    assert 110_000 <= (ends["a-1"].finished_at or 0) <= 110_000 + MAX_BACKOFF_MS
    assert len(reports) == 1
    assert universe.gangs.contract_violations == []


def test_a_job_whose_admission_is_refused_holds_no_node_and_is_not_charged() -> None:
    job = Job("j", (Role(resources={"gpu": 1}),), start_timeout=600_000)
    universe, _ = drive(
        {"a-1": job, "b-1": job},
        lambda now, job_id: "HTTP 500" if job_id == "a-1" and now < 2_000_000 else "",
        node_count=1,
    )
    ends = {job_id: state.status for job_id, state in universe.states.items()}
    assert {status.phase for status in ends.values()} == {Phase.SUCCEEDED}
    assert ends["b-1"].finished_at == 10_000, "it takes the only node at once"
    assert (ends["a-1"].generation, ends["a-1"].infrastructure_failures, ends["a-1"].run_time) == (1, 0, 10_000)
    assert (ends["a-1"].finished_at or 0) - 10_000 <= 2_000_000 + MAX_BACKOFF_MS
    assert universe.gangs.contract_violations == []


def test_a_dependent_knows_the_end_of_a_job_whose_end_is_not_written_yet() -> None:
    job = Job("j", (Role(resources={"gpu": 1}),))
    dependent = replace(job, after=(Dependency("a-1", Condition.SUCCEEDED),))
    universe, _ = drive(
        {"a-1": job, "b-1": dependent}, lambda now, job_id: "HTTP 500" if job_id == "a-1" and now == 10_000 else ""
    )
    assert {state.status.phase for state in universe.states.values()} == {Phase.SUCCEEDED}
