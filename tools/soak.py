"""Runs seeded fault schedules through the real controller and checks the invariants after every event.

    make soak                      10,000 schedules over every core
    make soak SOAK='--seed 4711'   one of them again, with its violations
    make soak-simulator            100,000 schedules, with the results of each thousand in a file

A schedule is a small cluster, some jobs of every kind, a policy, and faults: nodes that die or are unreachable, GPUs
that fail, ranks that are killed, gangs that vanish, slow and reclaimed nodes, a full disk, states that are refused,
users who cancel, suspend and resume, and a controller that is killed at any point of its turn. After the last fault
every job must end, and no node may stay allocated. A second judge, the end-state witness, compares the ends of jobs
with what the machines saw.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from random import Random

import campaign_results
from simulated_witness import EndStateWitness

from windlass.backends.port import BackendEvent, Changes, ClusterChanged, JobArrived, JobEvent
from windlass.backends.simulator.backend import SimulationOver, SimulatorBackend
from windlass.backends.simulator.faults import FaultKind, FaultRate, draw_faults
from windlass.backends.simulator.progress import Costs
from windlass.backends.simulator.script import Delays, Script
from windlass.backends.simulator.universe import Universe
from windlass.controller.controller import Controller, run
from windlass.core.cycle.scheduler import schedule
from windlass.core.invariants import plan_violations, snapshot_violations
from windlass.core.lifecycle import events as e
from windlass.core.lifecycle.commands import Command, Launch
from windlass.core.model.job import ArrayMember, Dependency, Job, RestartPolicy, Role, TopologyRequest
from windlass.core.model.node import Node, Topology
from windlass.core.model.policy import Policy
from windlass.core.model.queue import Queue
from windlass.core.model.reservation import Reservation
from windlass.core.model.status import TERMINAL
from windlass.core.queues.orders.registry import ORDERS

HORIZON = 600_000
"""Faults begin before this time, in ms. Suspended jobs are resumed at this time, and then every job must end."""
MAX_TURNS = 20_000
SCHEDULES = 10_000
_PART = 1_000
"""Schedules from one line of the results to the next."""
_BATCH = 20
_PLANS = 5
"""Turns from one check of a plan to the next."""


@dataclass(frozen=True, slots=True)
class Report:
    """Result of one schedule."""

    seed: int
    contract_violations: tuple[str, ...]
    turns: int
    deaths: int
    faults: Mapping[str, int] = field(default_factory=dict)
    """Number of faults by kind."""


def soak(seed: int) -> Report:
    """Runs one schedule to its end. Equal seeds give equal schedules."""
    rng = Random(seed)  # noqa: S311 - not for secrets
    faults: Counter[str] = Counter()
    universe, jobs = _universe(rng, faults)
    witness = EndStateWitness(universe, jobs)
    watch = _Watch(universe, witness)
    deaths = 0
    while True:
        # 1. a controller takes over …
        world = _MortalBackend(universe, rng, watch.look, witness, faults)
        watch.controller = Controller(world.recover(), world.finished)
        running = run(watch.controller, world, on_trouble=lambda _: None)
        try:
            running.send(None)  # 2. … and drives the world until it is killed, or nothing will happen any more
        except _Killed:
            deaths += 1
        except (SimulationOver, _Wrong):
            break
        finally:
            running.close()
    # 3. every job has ended, and every node is free
    return Report(
        seed,
        (*watch.contract_violations, *universe.gangs.contract_violations, *_unfinished(universe, watch)),
        watch.turns,
        deaths,
        {**faults, "controllers killed": deaths},
    )


def _unfinished(universe: Universe, watch: _Watch) -> Iterator[str]:
    if watch.contract_violations:
        return
    for state in universe.states.values():
        if state.status.phase not in TERMINAL:
            yield f"{state.id} never ends: {state.status.phase}, {state.status.reason} {state.status.message}"
    yield from watch.witness.end_violations()
    yield from (f"{job_id} is still alive" for job_id in universe.gangs.by_job)
    snapshot = watch.controller.snapshot()
    if (snapshot.free != snapshot.table.capacity).any():
        yield "nodes are still allocated"


# --- the checks, and the controller that is killed -----------------------------------------------------


class _Wrong(Exception):  # noqa: N818 - ends a schedule
    """A violation was found: the rest of the schedule would only repeat it."""


class _Killed(Exception):  # noqa: N818 - ends a controller
    """The controller is killed, as by SIGKILL."""


class _Watch:
    """Checks the invariants between two events."""

    def __init__(self, universe: Universe, witness: EndStateWitness) -> None:
        self.controller: Controller
        self.witness = witness
        self.contract_violations: list[str] = []
        self.turns = 0
        self._universe = universe

    def look(self) -> None:
        self.turns += 1
        snapshot = self.controller.snapshot()
        self.witness.observe_nodes()
        self.contract_violations += self.witness.violations
        if not self._universe.timeline.repeats_refused:
            self.contract_violations += snapshot_violations(snapshot, self.controller.states)
            if self.turns % _PLANS == 0:
                self.contract_violations += plan_violations(snapshot, schedule(snapshot, self._universe.timeline.now))
        if self.turns > MAX_TURNS:
            self.contract_violations.append(f"still busy after {MAX_TURNS} turns, at {self._universe.timeline.now} ms")
        if self.contract_violations or self._universe.gangs.contract_violations:
            raise _Wrong


class _MortalBackend(SimulatorBackend):
    """A simulated backend whose controller may die before, between and after its writes, and whose disk may be full."""

    def __init__(
        self,
        universe: Universe,
        rng: Random,
        watch: Callable[[], None],
        witness: EndStateWitness,
        faults: Counter[str],
    ) -> None:
        super().__init__(universe, watch, self._is_full_at_random, self._refuse_at_random)
        self._rng, self._witness, self._faults = rng, witness, faults

    def _is_full_at_random(self) -> bool:
        full = self._busy() and self._rng.random() < 0.02
        self._faults["full disks"] += full
        return full

    def _refuse_at_random(self, _job_id: str) -> str:
        refused = self._busy() and self._rng.random() < 0.02
        self._faults["states refused"] += refused
        return "a webhook is down" if refused else ""

    async def wait(self, until: int | None) -> Sequence[BackendEvent]:
        events = await super().wait(until)
        self._witness.observe_events(events)
        return events

    async def commit(self, changes: Changes) -> Mapping[str, str]:
        self._die_at_random()
        refusals = await super().commit(changes)
        self._witness.observe_commit(state for state in changes.states if state.id not in refusals)
        self._die_at_random()
        return refusals

    def perform(self, commands: Sequence[Command]) -> None:
        for command in commands:
            super().perform([command])
            if isinstance(command, Launch):
                self._witness.observe_launch(command.job_id)
            self._die_at_random()

    def _die_at_random(self) -> None:
        if self._busy() and self._rng.random() < 0.01:
            raise _Killed

    def _busy(self) -> bool:
        return self.universe.timeline.now < HORIZON


# --- a random cluster, its jobs and its faults --------------------------------------------------------


def _universe(rng: Random, faults: Counter[str]) -> tuple[Universe, Mapping[str, Job]]:
    """Returns a cluster with everything that will happen to it, and the jobs. Counts the faults by kind."""
    cluster = _cluster(rng)
    scripts: dict[str, Script] = {}
    universe = Universe(
        cluster,
        lambda job_id, _job: scripts[job_id],
        costs=Costs(rng.choice((0, 2_000)), rng.choice((0, 5_000)), rng.choice((0, 20_000)), 500, rng.random() < 0.5),
        delays=Delays(rng.choice((0, 0, 300)), rng.choice((0, 5_000))),
    )
    jobs = list(_jobs(rng, cluster))
    for arrival in jobs:
        scripts[arrival.job_id] = _script(rng)
        universe.timeline.arrive(rng.randrange(HORIZON // 2), arrival)
    rates = {kind: FaultRate(rng.randrange(100_000, 2_000_000), 60_000) for kind in FaultKind if rng.random() < 0.5}
    seed, notice = rng.getrandbits(32), rng.choice((0, 30_000))
    drawn = list(draw_faults([node.name for node in cluster.nodes], rates, HORIZON, seed, notice=notice))
    universe.schedule_faults(drawn)
    faults.update(_FAULT_NAMES[fault.kind] for fault in drawn)
    for at, event in _user_events(rng, [arrival.job_id for arrival in jobs]):
        universe.timeline.arrive(at, event)
        faults["requests of users"] += at < HORIZON
    for at, changed in _cluster_changes(rng, cluster):
        universe.timeline.schedule(at, partial(universe.declare, changed))
        faults["changes of the cluster"] += 1
    return universe, {arrival.job_id: arrival.job for arrival in jobs}


_FAULT_NAMES = {
    FaultKind.NODE: "nodes dead",
    FaultKind.RECLAIM: "nodes reclaimed",
    FaultKind.UNREACHABLE: "nodes unreachable",
    FaultKind.GPU: "GPUs failed",
    FaultKind.RANK: "ranks killed",
    FaultKind.GANG: "gangs vanished",
    FaultKind.SLOW: "nodes slow",
}


def _cluster(rng: Random) -> ClusterChanged:
    levels = rng.choice(((), ("rack",)))
    sharing = rng.choice(("", "", "milli", "mig"))
    nodes = tuple(
        Node(
            f"n{number}",
            {"gpu": rng.choice((2, 4, 4)), "cpu": 8_000},
            {"gpu-type": rng.choice(("A100-40GB", "H100-80GB"))},
            place=tuple(f"r{number % 2}" for _ in levels),
            sharing=rng.choice(("", sharing)),
        )
        for number in range(1, rng.randrange(3, 6))
    )
    queues = (
        Queue("default"),
        Queue("small", {"gpu": 3}, max_running=rng.choice((0, 2))),
        Queue("all", {"gpu": 0}),
        Queue("red", {"gpu": 4}, parent="all", half_life=rng.choice((0, 100_000))),
        Queue("blue", {"gpu": 4}, parent="all", weight=2, borrowing={"gpu": rng.choice((0, 2, 8))}),
    )
    policy = Policy(
        order=rng.choice(sorted(ORDERS)),
        reservations=rng.choice((0, 1, 2, -1)),
        preempt=rng.random() < 0.8,
        min_runtime=rng.choice((0, 5_000)),
    )
    windows = tuple(_window(rng, node.name) for node in nodes if rng.random() < 0.1)
    return ClusterChanged(nodes, queues, Topology(levels), policy, windows)


def _window(rng: Random, node: str) -> Reservation:
    """A reservation of one node: for maintenance, or for a queue."""
    start = rng.randrange(HORIZON)
    queues = rng.choice(((), ("red",)))
    return Reservation(f"window-{node}", (node,), start, start + rng.randrange(1, 100_000), queues)


def _jobs(rng: Random, cluster: ClusterChanged) -> Iterator[JobArrived]:
    for number in range(1, rng.randrange(5, 16)):
        after = (Dependency(f"j-{number - 1}"),) if number > 1 and rng.random() < 0.1 else ()
        array = ArrayMember("sweep-1", number, 2) if rng.random() < 0.1 else None
        level = cluster.topology.levels and rng.random() < 0.2
        job = Job(
            name="j",
            roles=tuple(_roles(rng)),
            queue=rng.choice(("default", "default", "small", "red", "blue")),
            priority=rng.choice((0, 0, 0, 1, 2)),
            walltime=rng.choice((None, 30_000, 100_000, 400_000)),
            unreachable_grace=rng.choice((None, 0, 20_000)),
            deadline=rng.choice((None, None, None, 500_000)),
            grace=rng.choice((0, 2_000, 10_000)),
            restart=RestartPolicy(rng.randrange(3), rng.randrange(4), backoff_max=20_000),
            suspend=rng.random() < 0.05,
            after=after,
            array=array,
            topology=TopologyRequest("rack", required=rng.random() < 0.5) if level else None,
            preemptible=rng.random() < 0.9,
            gpu_types=rng.choice(((), (), (), ("H100-80GB", "A100-40GB"))),
            avoid=rng.choice(((), (), (), ("n1",))),
            user=rng.choice(("ann", "bob")),
        )
        yield JobArrived(f"j-{number}", number, job)


def _roles(rng: Random) -> Iterator[Role]:
    replicas = rng.randrange(1, 5)
    elastic = rng.random() < 0.2
    part = {"gpu": rng.choice((0, 1, 1, 1, 2, 3))}
    if rng.random() < 0.3:
        part = rng.choice(({"gpu-milli": rng.randrange(100, 1_000)}, {"mig-1g.10gb": rng.randrange(1, 3)}))
    yield Role(
        replicas=replicas,
        resources={**part, "cpu": 500},
        whole_node=rng.random() < 0.05,
        min_replicas=rng.randrange(1, replicas + 1) if elastic else None,
        max_replicas=replicas + rng.randrange(3) if elastic else None,
    )
    if rng.random() < 0.2:
        yield Role(name="leader", resources={"cpu": 1_000})


def _script(rng: Random) -> Script:
    exits = [e.Exit(code=0)] * 8 + [e.Exit(code=1), e.Exit(signal=11), e.Exit(code=83)]
    return Script(
        work=rng.randrange(150_000),
        exit=rng.choice(exits),
        obeys_stop=rng.random() < 0.8,
        end_delay=rng.choice((0, 0, 1_000, 5_000)),
        start_error="" if rng.random() < 0.97 else "no such program",
    )


def _user_events(rng: Random, jobs: Sequence[str]) -> Iterator[tuple[int, BackendEvent]]:
    for job_id in jobs:
        for event in (e.Cancel("ann"), e.Kill("ann"), e.Suspend("ann"), e.Resume("ann"), e.Preempt("by hand")):
            if rng.random() < 0.08:
                yield rng.randrange(HORIZON), JobEvent(job_id, event)
        if rng.random() < 0.2:
            at = rng.randrange(HORIZON)
            yield at, JobEvent(job_id, e.Saved(1, at))
        yield HORIZON, JobEvent(job_id, e.Resume())


def _cluster_changes(rng: Random, cluster: ClusterChanged) -> Iterator[tuple[int, ClusterChanged]]:
    """Changes of the declared cluster: a node is taken out and put back, or the policy's order changes."""
    if rng.random() < 0.3:
        yield rng.randrange(HORIZON // 2), replace(cluster, nodes=cluster.nodes[1:])
        yield rng.randrange(HORIZON // 2, HORIZON), cluster
    if rng.random() < 0.2:
        yield HORIZON - 1, replace(cluster, policy=replace(cluster.policy, order=rng.choice(sorted(ORDERS))))


# --- many schedules -----------------------------------------------------------------------------------


def main() -> int:
    parser = argparse.ArgumentParser(description="Seeded fault schedules, invariants after every event.")
    parser.add_argument("--schedules", type=int, default=SCHEDULES, help=f"number of schedules (default {SCHEDULES})")
    parser.add_argument("--from", dest="first", type=int, default=0, help="the first seed (default 0)")
    parser.add_argument("--seed", type=int, help="run only this seed and print its violations")
    parser.add_argument("--results", type=Path, help="append the result of each thousand schedules to this file")
    parser.add_argument("--processes", type=int, default=os.cpu_count(), help="processes (default: all cores)")
    options = parser.parse_args()
    if options.seed is not None:
        report = soak(options.seed)
        print(
            f"seed {report.seed}: {report.turns} turns, {report.deaths} controllers killed",
            *report.contract_violations,
            sep="\n",
        )
        return 1 if report.contract_violations else 0
    return _soak_many(range(options.first, options.first + options.schedules), options.processes, options.results)


def _soak_many(seeds: range, processes: int | None, results: Path | None) -> int:
    begun, done, turns, deaths = time.monotonic(), 0, 0, 0
    failed: list[Report] = []
    part = _PartOfCampaign(results, seeds)
    with ProcessPoolExecutor(processes) as pool:
        for report in pool.map(soak, seeds, chunksize=_BATCH):
            done, turns, deaths = done + 1, turns + report.turns, deaths + report.deaths
            part.add(report)
            if report.contract_violations:
                failed.append(report)
                print(f"\nseed {report.seed}: {report.contract_violations[0]}")
            if done % 100 == 0 or done == len(seeds):
                _show(done, len(seeds), len(failed), time.monotonic() - begun)
    print(f"\n{done:,} schedules, {turns:,} turns, {deaths:,} controllers killed: {len(failed)} with violations")
    for report in failed[:10]:
        print(f"to repeat: make soak SOAK='--seed {report.seed}'")
    return 1 if failed else 0


class _PartOfCampaign:
    """Sums up a thousand reports and appends them to the results, if any."""

    def __init__(self, results: Path | None, seeds: range) -> None:
        self._results, self._last = results, seeds.stop - 1
        self._reports: list[Report] = []
        self._begun = time.monotonic()

    def add(self, report: Report) -> None:
        self._reports.append(report)
        if self._results is not None and (len(self._reports) == _PART or report.seed == self._last):
            campaign_results.append(self._results, self._sum())
            self._reports, self._begun = [], time.monotonic()

    def _sum(self) -> Mapping[str, object]:
        faults: Counter[str] = Counter()
        for report in self._reports:
            faults.update(report.faults)
        return {
            "first": self._reports[0].seed,
            "schedules": len(self._reports),
            "faults": dict(faults),
            "violations": [report.seed for report in self._reports if report.contract_violations],
            "turns": sum(report.turns for report in self._reports),
            "seconds": round(time.monotonic() - self._begun, 1),
        }


def _show(done: int, of: int, failed: int, seconds: float) -> None:
    left = seconds / done * (of - done)
    end = "\r" if sys.stdout.isatty() else "\n"
    print(f"{done:>6,} of {of:,} schedules, {failed} with violations, {left:.0f} s to go ", end=end, flush=True)


if __name__ == "__main__":
    sys.exit(main())
