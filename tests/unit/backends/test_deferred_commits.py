"""A job whose state cannot be written waits, and all others go on."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import replace

from windlass.backends.deferred_commits import FIRST_RETRY_MS, LAST_RETRY_MS, DeferredCommits
from windlass.backends.port import Changes, ClusterChanged, JobArrived, Transition
from windlass.backends.simulator.backend import SimulationOver, SimulatorBackend
from windlass.backends.simulator.script import Script
from windlass.backends.simulator.universe import Universe
from windlass.controller.controller import Controller
from windlass.controller.loop import run
from windlass.core.lifecycle.commands import Launch, Stop
from windlass.core.lifecycle.transitions import create_state
from windlass.core.model.job import Condition, Dependency, Job, Role
from windlass.core.model.node import Node
from windlass.core.model.queue import Queue
from windlass.core.model.status import JobState, Phase, Placement

PLACEMENT = Placement({"worker": ("n1",)})
REFUSED = {"a-1": "the webhook is down"}


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
    assert (found.next_due(), found.reasons) == (FIRST_RETRY_MS, REFUSED)
    assert found.select(turn("b-1"), FIRST_RETRY_MS - 1) == turn("b-1")
    retried = found.select(Changes(), FIRST_RETRY_MS)
    assert retried == turn("a-1")
    assert found.settle(retried, {}, FIRST_RETRY_MS) == turn("a-1").commands
    assert found.select(Changes(), 10 * FIRST_RETRY_MS) == Changes()


def test_a_retry_writes_the_latest_state_and_performs_the_commands_in_order() -> None:
    found = deferred()
    later = replace(turn("a-1", generation=2), commands=(Stop("a-1", 1, 0), Launch("a-1", 2, PLACEMENT)))
    assert found.select(later, 1) == Changes()
    assert found.state_of("a-1") == state("a-1", 2)
    assert found.state_of("b-1") is None
    retried = found.select(Changes(), FIRST_RETRY_MS)
    assert retried.states == (state("a-1", 2),)
    assert [each.message for each in retried.transitions] == ["start 1", "start 2"]
    assert retried.commands == (Stop("a-1", 1, 0), Launch("a-1", 2, PLACEMENT)), "the first start was taken back"


def test_the_wait_doubles_up_to_a_limit_and_a_reason_is_reported_once() -> None:
    reports: list[str] = []
    found, waits = deferred(reports), []
    for _ in range(9):
        now = found.next_due() or 0
        found.settle(found.select(Changes(), now), REFUSED, now)
        waits.append((found.next_due() or 0) - now)
    assert waits == [2_000, 4_000, 8_000, 16_000, 32_000, *[LAST_RETRY_MS] * 4]
    assert len(reports) == 1
    assert "a-1" in reports[0]
    now = found.next_due() or 0
    found.settle(found.select(Changes(), now), {"a-1": "forbidden"}, now)
    assert len(reports) == 2


# --- the controller on a backend that refuses one job ---------------------------------------------------


def drive(jobs: dict[str, Job], refusal: Callable[[int, str], str]) -> tuple[Universe, list[str]]:
    """The universe after all jobs have ended; each works for 10 s on nodes of its own."""
    nodes = tuple(Node(f"n{number}", {"gpu": 1}) for number in range(4))
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
    assert 110_000 <= (ends["a-1"].finished_at or 0) <= 110_000 + LAST_RETRY_MS
    assert len(reports) == 1
    assert universe.gangs.contract_violations == []


def test_a_dependent_knows_the_end_of_a_job_whose_end_is_not_written_yet() -> None:
    job = Job("j", (Role(resources={"gpu": 1}),))
    dependent = replace(job, after=(Dependency("a-1", Condition.SUCCEEDED),))
    universe, _ = drive(
        {"a-1": job, "b-1": dependent}, lambda now, job_id: "HTTP 500" if job_id == "a-1" and now == 10_000 else ""
    )
    assert {state.status.phase for state in universe.states.values()} == {Phase.SUCCEEDED}
