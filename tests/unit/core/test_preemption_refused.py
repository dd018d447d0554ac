"""A preemption whose gang cannot be evicted is given up: the gang continues and is excluded for a while."""

from windlass.backends.port import ClusterChanged, JobArrived, JobEvent, Recovery
from windlass.controller.controller import Controller
from windlass.core.lifecycle import events as e
from windlass.core.lifecycle.state_machine import step
from windlass.core.lifecycle.transitions import UNEVICTABLE_MS, create_state
from windlass.core.model.gang import attained_service, running_of
from windlass.core.model.job import Job, Role
from windlass.core.model.node import Node
from windlass.core.model.policy import Policy
from windlass.core.model.queue import Queue
from windlass.core.model.status import JobState, Phase, Placement

JOB = Job("j", (Role(replicas=2, resources={"gpu": 1}),))
ON = Placement({"worker": ("n1", "n2")})
BUDGET = "the budget web-pdb allows no eviction"


def state_after(*events: e.Event) -> JobState:
    state = create_state("j-1", 1, JOB, 0)
    for now, event in enumerate((e.Submitted(), e.Admit(ON), e.Started(1), *events), start=1):
        state, _ = step(state, event, now)
    return state


def test_a_gang_that_cannot_be_evicted_continues() -> None:
    status = state_after(e.Preempt("for j-2"), e.PreemptionRefused(1, BUDGET)).status
    assert (status.phase, status.generation, status.target, status.preemptions) == (Phase.RUNNING, 1, None, 0)
    assert (status.reason, status.message) == ("PreemptionRefused", BUDGET)
    assert status.unevictable_until == 5 + UNEVICTABLE_MS


def test_an_unevictable_gang_is_no_victim_until_the_given_time() -> None:
    state = state_after(e.Preempt("for j-2"), e.PreemptionRefused(1, BUDGET))
    run = running_of(state, ON)
    assert run.is_unevictable(5 + UNEVICTABLE_MS - 1)
    assert not run.is_unevictable(5 + UNEVICTABLE_MS)
    assert not run.stopping


def test_a_report_of_an_older_generation_changes_nothing() -> None:
    assert state_after(e.Preempt("for j-2"), e.PreemptionRefused(0, BUDGET)).status.phase is Phase.RESTARTING


def test_a_gang_that_ends_for_another_reason_still_ends() -> None:
    assert state_after(e.NodeLost("n1"), e.PreemptionRefused(1, BUDGET)).status.phase is Phase.RESTARTING


def test_service_is_counted_by_the_gpus_held() -> None:
    state = state_after()
    assert attained_service(state, 1_002) == 2 * 1000 * 1_000
    state, _ = step(state, e.Preempt("for j-2"), 1_002)
    state, _ = step(state, e.GangGone(1), 2_002)
    assert (state.status.run_time, state.status.service) == (2_000, 2 * 1000 * 2_000)


def controller_after_a_refusal(*low: str) -> Controller:
    """Controller of a gang of high priority and gangs of low priority on as many nodes; the last of these, the cheapest
    victim, cannot be evicted."""
    nodes = tuple(Node(f"n{number}", {"gpu": 1}) for number in range(len(low)))
    cluster = ClusterChanged(nodes, (Queue("default"),), policy=Policy(min_runtime=0))
    controller = Controller(Recovery(cluster), lambda _: None)
    for number, name in enumerate((*low, "high"), start=1):
        job = Job(name, (Role(resources={"gpu": 1}),), priority=int(name == "high"))
        controller.turn([JobArrived(name, number, job)], number)
        controller.turn([JobEvent(name, e.Started(1))], number)
    assert controller.states[low[-1]].status.phase is Phase.RESTARTING
    controller.turn([JobEvent(low[-1], e.PreemptionRefused(1, BUDGET))], 10)
    return controller


def test_another_gang_is_preempted_as_soon_as_an_eviction_is_refused() -> None:
    controller = controller_after_a_refusal("low1", "low2")
    phases = {name: state.status.phase for name, state in controller.states.items()}
    assert phases == {"low1": Phase.RESTARTING, "low2": Phase.RUNNING, "high": Phase.QUEUED}
    assert "low1" in controller.plan.verdicts["high"].message
    assert "low2" not in controller.plan.verdicts["high"].message


def test_an_unevictable_gang_is_preempted_again_at_the_end_of_its_exclusion() -> None:
    controller = controller_after_a_refusal("low")
    assert controller.states["low"].status.phase is Phase.RUNNING
    assert controller.next_due() == 10 + UNEVICTABLE_MS
    controller.turn([], 10 + UNEVICTABLE_MS)
    assert controller.states["low"].status.phase is Phase.RESTARTING
