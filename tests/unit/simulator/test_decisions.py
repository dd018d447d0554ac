"""The replay, and the real controller on the sim world: the same decisions on the same trace, to the millisecond."""

from __future__ import annotations

import random
from collections.abc import Coroutine
from dataclasses import replace
from typing import Any

import pytest

from windlass.backends.simulator import Costs, Outcome, Trace, cluster_of, replay
from windlass.backends.simulator.backend import SimulatorBackend
from windlass.backends.simulator.simulate import simulate
from windlass.backends.simulator.synthetic import HOUR, Distribution, Size, synthesize
from windlass.controller import Controller, run
from windlass.core.cycle.scheduler import schedule
from windlass.core.ledger import Ledger
from windlass.core.model.node import Node
from windlass.core.model.plan import Plan
from windlass.core.model.policy import Policy
from windlass.core.model.queue import Queue
from windlass.core.model.snapshot import Snapshot
from windlass.core.queues.orders.registry import ORDERS, POLICIES

SIZES = (Size(1, 5.0, HOUR, 1.2), Size(2, 1.0, HOUR, 1.0), Size(8, 1.0, 2 * HOUR, 1.0), Size(20, 0.5, HOUR, 0.5))
LAW = Distribution(HOUR, SIZES, queues=(("a", 0.5), ("b", 0.3), ("c", 0.2)), users=2)
CLUSTER = cluster_of(4, 8, queues=(Queue("b", {"gpu": 16}), Queue("a", weight=2)))


def busy(seed: int, jobs: int = 60) -> Trace:
    trace = synthesize(LAW.at_load(32, 1.1), jobs, seed)
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


def controlled(world: SimulatorBackend) -> Coroutine[Any, Any, None]:
    return run(Controller(world.recover(), world.finished), world, on_trouble=pytest.fail)


def decisions(outcome: Outcome) -> list[tuple[int, int, int, int, tuple[int, ...], tuple[int, ...]]]:
    """Of every run: when, whose, why it ended, on which nodes, and with how much there."""
    seats = [slice(*pair) for pair in zip(outcome.seats[:-1], outcome.seats[1:], strict=True)]
    runs = zip(outcome.begin, outcome.job, outcome.end, outcome.cause, seats, strict=True)
    return sorted(
        (int(begin), int(job), int(end), int(cause), tuple(outcome.row[at]), tuple(outcome.amount[at]))
        for begin, job, end, cause, at in runs
    )


@pytest.mark.parametrize("order", sorted(ORDERS))
def test_replay_and_controller_decide_alike(order: str) -> None:
    policy = Policy(order=order)
    for seed in range(2):
        trace = busy(seed)
        replayed = replay(trace, CLUSTER, policy, kill=True)
        simulated = simulate(trace, CLUSTER, policy, controlled)
        assert decisions(replayed) == decisions(simulated)
        assert len({job for _, job, *_ in decisions(replayed)}) == len(trace.jobs)


@pytest.mark.parametrize("name", ["fifo", "easy", "conservative", "sjf", "fair", "windlass"])
def test_decisions_that_need_no_plan_are_those_of_a_plan(name: str) -> None:
    """Nobody has a priority and no queue a limit: the replay's shortcuts apply (backends.simulator.shortcuts)."""
    uneven = cluster_of(3, 8)
    cluster = replace(uneven, nodes=(*uneven.nodes, Node("small", {"gpu": 2})))
    for seed in range(3):
        trace = busy(seed)
        trace = replace(trace, jobs=tuple(replace(job, priority=0) for job in trace.jobs))
        replayed = replay(trace, cluster, POLICIES[name], kill=True)
        assert decisions(replayed) == decisions(simulate(trace, cluster, POLICIES[name], controlled))


def test_they_charge_restarts_and_checkpoints_alike() -> None:
    costs = Costs(start=5_000, restart=60_000, checkpoint_every=600_000, checkpoint=20_000, saves_when_stopped=False)
    for order in ("fifo", "windlass", "srtf"):
        trace = busy(7)
        replayed = replay(trace, CLUSTER, Policy(order=order), costs=costs, kill=True)
        assert decisions(replayed) == decisions(simulate(trace, CLUSTER, Policy(order=order), controlled, costs=costs))


def said(plan: Plan) -> object:
    return plan.admissions, plan.preemptions, plan.resizes, tuple(plan.order), dict(plan.verdicts)


def rebuilt(snapshot: Snapshot, rng: random.Random) -> Snapshot:
    """What somebody else would make of the same cluster, who hears of its gangs in another order."""
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
def test_a_snapshot_gives_the_same_plan_whoever_asks(order: str) -> None:
    rng = random.Random(1)  # noqa: S311 - not for secrets
    asked = 0

    def compare(world: SimulatorBackend) -> Coroutine[Any, Any, None]:
        controller = Controller(world.recover(), world.finished)

        def watch() -> None:
            nonlocal asked
            if rng.random() < 0.1:
                asked += 1
                snapshot, now = controller.snapshot(), world.now()
                plan = said(schedule(snapshot, now))
                assert plan == said(schedule(Ledger.at(snapshot).snapshot(), now))
                assert plan == said(schedule(rebuilt(snapshot, rng), now))

        return run(controller, SimulatorBackend(world.universe, watch), on_trouble=pytest.fail)

    simulate(busy(3), CLUSTER, Policy(order=order), compare)
    assert asked > 10
