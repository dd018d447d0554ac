"""The replay and the controller on the simulator backend: equal decisions on the same trace, to the millisecond."""

from __future__ import annotations

import random
from collections.abc import Coroutine
from dataclasses import replace
from typing import Any

import pytest

from windlass.backends.simulator import Costs, Outcome, Trace, cluster_of, replay
from windlass.backends.simulator.backend import SimulatorBackend
from windlass.backends.simulator.simulate import simulate
from windlass.backends.simulator.synthetic import HOUR, Distribution, SizeClass, synthesize
from windlass.controller.controller import Controller, run
from windlass.core.cycle.scheduler import schedule
from windlass.core.ledger import Ledger
from windlass.core.model.node import Node
from windlass.core.model.plan import Plan
from windlass.core.model.policy import Policy
from windlass.core.model.queue import Queue
from windlass.core.model.snapshot import Snapshot
from windlass.core.queues.orders.registry import ORDERS, POLICIES

SIZES = (
    SizeClass(1, 5.0, HOUR, 1.2),
    SizeClass(2, 1.0, HOUR, 1.0),
    SizeClass(8, 1.0, 2 * HOUR, 1.0),
    SizeClass(20, 0.5, HOUR, 0.5),
)
DISTRIBUTION = Distribution(HOUR, SIZES, queues=(("a", 0.5), ("b", 0.3), ("c", 0.2)), users=2)
CLUSTER = cluster_of(4, 8, queues=(Queue("b", {"gpu": 16}), Queue("a", weight=2)))


def busy_trace(seed: int, jobs: int = 60) -> Trace:
    trace = synthesize(DISTRIBUTION.at_load(32, 1.1), jobs, seed)
    rng = random.Random(seed)  # noqa: S311 - not for secrets
    fitting = tuple(
        replace(
            job,
            queue="a" if job.gpus > 16 else job.queue,
            priority=rng.choice((0, 0, 0, 5)),
            walltime=rng.choice((None, job.walltime, job.walltime)),
        )
        for job in trace.jobs
    )
    return replace(trace, jobs=fitting)


def run_controller(backend: SimulatorBackend) -> Coroutine[Any, Any, None]:
    return run(Controller(backend.recover(), backend.finished), backend, on_trouble=pytest.fail)


def decisions(outcome: Outcome) -> list[tuple[int, int, int, int, tuple[int, ...], tuple[int, ...]]]:
    """Returns every run: begin, job, end, cause, nodes, and the amount on each node."""
    seats = [slice(*pair) for pair in zip(outcome.seats[:-1], outcome.seats[1:], strict=True)]
    runs = zip(outcome.begin, outcome.job, outcome.end, outcome.cause, seats, strict=True)
    return sorted(
        (int(begin), int(job), int(end), int(cause), tuple(outcome.row[at]), tuple(outcome.amount[at]))
        for begin, job, end, cause, at in runs
    )


@pytest.mark.parametrize("order", sorted(ORDERS))
def test_the_replay_and_the_controller_decide_equally(order: str) -> None:
    policy = Policy(order=order)
    for seed in range(2):
        trace = busy_trace(seed)
        replayed = replay(trace, CLUSTER, policy, kill=True)
        simulated = simulate(trace, CLUSTER, policy, run_controller)
        assert decisions(replayed) == decisions(simulated)
        assert len({job for _, job, *_ in decisions(replayed)}) == len(trace.jobs)


@pytest.mark.parametrize("name", ["fifo", "easy", "conservative", "sjf", "fair", "windlass"])
def test_shortcuts_decide_like_a_full_plan(name: str) -> None:
    """Without priorities and queue limits the replay's shortcuts apply (`backends.simulator.shortcuts`)."""
    uneven = cluster_of(3, 8)
    cluster = replace(uneven, nodes=(*uneven.nodes, Node("small", {"gpu": 2})))
    for seed in range(3):
        trace = busy_trace(seed)
        trace = replace(trace, jobs=tuple(replace(job, priority=0) for job in trace.jobs))
        replayed = replay(trace, cluster, POLICIES[name], kill=True)
        assert decisions(replayed) == decisions(simulate(trace, cluster, POLICIES[name], run_controller))


def test_the_replay_and_the_controller_charge_restarts_and_checkpoints_equally() -> None:
    costs = Costs(start=5_000, restart=60_000, checkpoint_every=600_000, checkpoint=20_000, saves_when_stopped=False)
    for order in ("fifo", "windlass", "srtf"):
        trace = busy_trace(7)
        replayed = replay(trace, CLUSTER, Policy(order=order), costs=costs, kill=True)
        simulated = simulate(trace, CLUSTER, Policy(order=order), run_controller, costs=costs)
        assert decisions(replayed) == decisions(simulated)


def decisions_of_plan(plan: Plan) -> object:
    return plan.admissions, plan.preemptions, plan.resizes, tuple(plan.order), dict(plan.verdicts)


def rebuild(snapshot: Snapshot, rng: random.Random) -> Snapshot:
    """Returns the snapshot of a ledger that got the same nodes and gangs in another order."""
    table = snapshot.table
    ledger = Ledger(
        rng.sample(table.nodes, len(table.nodes)), snapshot.queues.values(), table.topology, snapshot.policy
    )
    for gang in rng.sample(snapshot.pending, len(snapshot.pending)):
        ledger.add_pending(gang)
    for gang in rng.sample(tuple(snapshot.running.values()), len(snapshot.running)):
        ledger.hold(gang)
    return ledger.snapshot()


@pytest.mark.parametrize("order", ["fifo", "windlass"])
def test_a_snapshot_gives_the_same_plan_in_any_order_of_its_parts(order: str) -> None:
    rng = random.Random(1)  # noqa: S311 - not for secrets
    compared = 0

    def compare(backend: SimulatorBackend) -> Coroutine[Any, Any, None]:
        controller = Controller(backend.recover(), backend.finished)

        def watch() -> None:
            nonlocal compared
            if rng.random() < 0.1:
                compared += 1
                snapshot, now = controller.snapshot(), backend.now()
                plan = decisions_of_plan(schedule(snapshot, now))
                assert plan == decisions_of_plan(schedule(Ledger.at(snapshot).snapshot(), now))
                assert plan == decisions_of_plan(schedule(rebuild(snapshot, rng), now))

        return run(controller, SimulatorBackend(backend.universe, watch), on_trouble=pytest.fail)

    simulate(busy_trace(3), CLUSTER, Policy(order=order), compare)
    assert compared > 10
