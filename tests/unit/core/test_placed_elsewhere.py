"""Gangs that another scheduler places: they are admitted by quota alone, and hold nothing on nodes."""

from __future__ import annotations

from dataclasses import replace

import pytest
from gangs import admitted, demand, ledger_of, nodes, running, waiting

from windlass.core import invariants
from windlass.core.cycle.scheduler import schedule
from windlass.core.explain.explanation import explain
from windlass.core.lifecycle import events as e
from windlass.core.lifecycle.commands import Launch
from windlass.core.lifecycle.state_machine import step
from windlass.core.lifecycle.transitions import create_state
from windlass.core.model.gang import PendingGang
from windlass.core.model.job import Job, Role
from windlass.core.model.policy import Policy
from windlass.core.model.queue import Queue
from windlass.core.model.reasons import Reason
from windlass.core.model.status import JobState, Phase, Placement

SMALL = Queue("small", {"gpu": 8})
NOW = 1_000


def elsewhere(number: int, gpus: int = 1, replicas: int = 2, **more: object) -> PendingGang:
    return waiting(number, replace(demand(replicas, gpus), placed_by="volcano"), **more)  # type: ignore[arg-type]


def test_a_gang_that_another_scheduler_places_starts_without_room_on_nodes() -> None:
    ledger = ledger_of(nodes(1), running(1, {"n1": 8}), elsewhere(2, 8, 4))
    snapshot = ledger.snapshot()
    plan = schedule(snapshot, 0)
    assert [(each.job_id, dict(each.placement.nodes)) for each in plan.admissions] == [("j-2", {"worker": ("",) * 4})]
    assert invariants.plan_violations(snapshot, plan) == []


def test_it_takes_no_node_from_others() -> None:
    held = replace(running(1, {"n1": 8}), demands=(replace(demand(8), placed_by="volcano"),))
    ledger = ledger_of(nodes(1), held, waiting(2, demand(8)))
    assert admitted(schedule(ledger.snapshot(), 0)).keys() == {"j-2"}


def test_its_queue_is_charged_before_it_is_placed_and_after() -> None:
    blocked = [elsewhere(2, 3, 2, queue="small"), waiting(3, demand(5), queue="small")]
    for place in ({"": 4}, {"n1": 4}):
        held = running(1, place, queue="small")
        held = replace(held, demands=tuple(replace(each, placed_by="volcano") for each in held.demands))
        plan = schedule(ledger_of(nodes(4), held, *blocked, queues=(SMALL,)).snapshot(), 0)
        assert admitted(plan) == {}
        assert plan.verdicts["j-2"].reason is Reason.WAITING_FOR_QUOTA
        assert plan.verdicts["j-2"].message == "needs 6 gpu: queue small holds 4 of the 8 it may hold"


def test_a_gang_of_lower_priority_gives_it_quota() -> None:
    victim = running(1, {"n1": 8}, queue="small")
    snapshot = ledger_of(nodes(4), victim, elsewhere(2, 4, 2, queue="small", priority=5), queues=(SMALL,)).snapshot()
    plan = schedule(snapshot, 10**9)
    assert [each.job_id for each in plan.preemptions] == ["r-1"]
    assert invariants.plan_violations(snapshot, plan) == []


@pytest.mark.parametrize("order", ["windlass", "fifo", "las", "srtf"])
def test_every_order_starts_it_beside_gangs_that_wait_for_nodes(order: str) -> None:
    gangs = [running(1, {"n1": 8}), waiting(2, demand(8)), elsewhere(3, 8, 2), waiting(4, demand(99))]
    ledger = ledger_of(nodes(1), *gangs)
    ledger.set_cluster(nodes(1), (), None, Policy(order=order))
    snapshot = ledger.snapshot()
    plan = schedule(snapshot, 0)
    assert "j-3" in admitted(plan)
    assert invariants.plan_violations(snapshot, plan) == []


def test_the_explanation_of_such_a_gang_names_its_quota() -> None:
    gangs = [running(1, {"n1": 8}, queue="small"), elsewhere(2, 4, 2, queue="small")]
    snapshot = ledger_of(nodes(1), *gangs, queues=(SMALL,)).snapshot()
    assert explain(snapshot, "j-2", 0).verdict.reason is Reason.WAITING_FOR_QUOTA


# --- its life -----------------------------------------------------------------------------------------


def admitted_state() -> JobState:
    job = Job("j", (Role(replicas=2),), placed_by="volcano")
    state, _ = step(create_state("j-1", 1, job, 0), e.Submitted(), NOW)
    state, commands = step(state, e.Admit(Placement({"worker": ("", "")})), NOW)
    assert commands == (Launch("j-1", 1, Placement({"worker": ("", "")})),)
    return state


def test_its_placement_is_the_one_that_the_other_scheduler_reports() -> None:
    state = admitted_state()
    assert state.status.message == "its nodes are chosen by the scheduler volcano"
    state, _ = step(state, e.MembersPlaced(1, Placement({"worker": ("n1", "")})), NOW)
    assert state.status.message == "its nodes are chosen by the scheduler volcano"
    state, commands = step(state, e.MembersPlaced(1, Placement({"worker": ("n1", "n2")})), NOW)
    assert (state.status.phase, state.status.message, commands) == (Phase.ADMITTED, "starting on n1,n2", ())
    state, _ = step(state, e.Started(1), NOW)
    state, commands = step(state, e.NodeLost("n2"), NOW)
    assert state.status.phase is Phase.RESTARTING
    assert len(commands) == 1


def test_its_next_generation_is_placed_anew() -> None:
    state = admitted_state()
    state, _ = step(state, e.MembersPlaced(1, Placement({"worker": ("n1", "n2")})), NOW)
    state, _ = step(state, e.Started(1), NOW)
    state, _ = step(state, e.MemberExited(1, 0, e.Exit(signal=9)), NOW)
    state = replace(state, job=replace(state.job, restart=replace(state.job.restart, backoff_base=0)))
    state, _ = step(state, e.GangGone(1), NOW + 10**6)
    if state.status.phase is Phase.QUEUED:
        pytest.fail("a killed member keeps the quota")
    if state.status.generation == 1:
        state, _ = step(state, e.Timer(), NOW + 10**7)
    assert state.status.generation == 2
    assert state.status.placement == Placement({"worker": ("", "")})


def test_a_report_of_a_placement_changes_no_job_that_this_scheduler_places() -> None:
    state = admitted_state()
    own = replace(state, job=replace(state.job, placed_by=""))
    assert step(own, e.MembersPlaced(1, Placement({"worker": ("n1", "n2")})), NOW) == (own, ())
