"""Replays a trace under a policy without faults: event by event, directly on the ledger and the scheduler.

It makes the same decisions as a controller on the simulator backend (a test enforces it), without its bookkeeping.
At one time ends come before arrivals, and everything at that time is decided at once.
"""

from __future__ import annotations

from collections import Counter, OrderedDict
from collections.abc import Callable, Iterator
from dataclasses import replace
from heapq import heappop, heappush

from windlass.backends.simulator.errors import SimulationError, TraceError
from windlass.backends.simulator.gangs import gang_of, sizes_of, unit_of
from windlass.backends.simulator.outcome import EndCause, Outcome
from windlass.backends.simulator.progress import Costs, time_needed, work_kept
from windlass.backends.simulator.record import RunRecord
from windlass.backends.simulator.shortcuts import Shortcuts
from windlass.backends.simulator.traces.job import Trace
from windlass.core.cycle.scheduler import schedule
from windlass.core.ledger import Ledger
from windlass.core.model.gang import PendingGang, RunningGang, start_gang
from windlass.core.model.plan import Plan
from windlass.core.model.policy import Policy
from windlass.core.model.queue import Queue
from windlass.core.model.resources import CPU
from windlass.core.model.snapshot import Grant, NodeTable
from windlass.core.model.status import Placement
from windlass.core.placement.empty_cluster_fit import fits_empty
from windlass.jobs.cluster.cluster_file import Cluster

TOO_LARGE = "too large for the cluster"
_REPORT_EVERY = 500
"""Number of jobs between two progress reports."""


def replay(
    trace: Trace,
    cluster: Cluster,
    policy: Policy | None = None,
    *,
    costs: Costs | None = None,
    kill: bool = False,
    skip_bad: bool = False,
    on_progress: Callable[[int, int], None] = lambda _done, _all: None,
) -> Outcome:
    """Runs every job of the trace on the cluster. Queues that only the trace names have no limits.

    `kill`: a job ends when its walltime is over, finished or not. Calls `on_progress(ended jobs, all)`. A job that does
    not fit the empty cluster raises TraceError; `skip_bad` leaves it out and counts it.
    """
    policy = policy or Policy()
    # 1. the gang of every job, and an empty cluster
    ledger = Ledger(cluster.nodes, queues_of(trace, cluster), cluster.topology, policy)
    gangs, left_out = fitting_gangs(trace, cluster, ledger.snapshot().table, skip_bad=skip_bad)
    shortcuts = Shortcuts(ledger, policy, queues_of(trace, cluster), gangs)
    run = _Run(trace, gangs, ledger, shortcuts, costs or Costs(), kill=kill)
    # 2. from one time to the next
    for count, now in enumerate(run.moments()):
        run.end_runs(now)
        run.add_arrivals(now)
        run.decide(now)
        if count % _REPORT_EVERY == 0:
            on_progress(run.done, len(gangs))
    # 3. no gang may be left
    run.check()
    on_progress(run.done, len(gangs))
    return run.record.outcome(trace, cluster, policy, left_out)


def queues_of(trace: Trace, cluster: Cluster) -> tuple[Queue, ...]:
    """Returns the cluster's queues, and one without limits for every other queue that a job names."""
    named = {queue.name: queue for queue in cluster.queues}
    return tuple(({job.queue: Queue(job.queue) for job in trace.jobs} | named).values())


def fitting_gangs(
    trace: Trace, cluster: Cluster, table: NodeTable, *, skip_bad: bool
) -> tuple[list[PendingGang], Counter[str]]:
    """Returns the gangs that fit, numbered by the trace's jobs from 1, and the number of others by cause."""
    sizes, left_out = sizes_of(cluster.nodes), Counter(trace.left_out)
    if trace.jobs and unit_of(trace) == CPU and CPU not in sizes.largest:
        raise SimulationError(
            f"no job of {trace.name} requests a GPU, and the cluster states no cores; name a cluster file with cpus"
        )
    known: dict[object, bool] = {}
    gangs: list[PendingGang] = []
    for number, job in enumerate(trace.jobs, start=1):
        gang = gang_of(job, number, sizes)
        fits = known.get(gang.shape)
        if fits is None:
            fits = known[gang.shape] = fits_empty(table, gang)
        if fits:
            gangs.append(gang)
        elif skip_bad:
            left_out[TOO_LARGE] += 1
        else:
            amount, unit = (gang.milli_gpus, "GPU") if gang.milli_gpus else (job.cpu, "core")
            asks = f"{amount / 1000:g} {unit}{'s' * (amount != 1000)}"
            size = f"{len(cluster.nodes)} node{'s' * (len(cluster.nodes) != 1)}"
            text = f"job {job.id} asks for {asks}, which this cluster of {size} cannot hold"
            raise TraceError(
                trace.file_of(job), job.row, f"{text}; name a larger one, or leave such jobs out with --skip-bad"
            )
    return gangs, left_out


class _Run:
    """The state of one replay. Jobs are identified by their index in the trace."""

    def __init__(
        self, trace: Trace, gangs: list[PendingGang], ledger: Ledger, shortcuts: Shortcuts, costs: Costs, *, kill: bool
    ) -> None:
        self.record = RunRecord(ledger.snapshot().table, unit_of(trace))
        self.done = 0
        self._ledger, self._shortcuts = ledger, shortcuts
        self._costs, self._kill = costs, kill
        self._arriving = gangs[::-1]
        """By submission, last first."""
        self._waiting: OrderedDict[str, PendingGang] = OrderedDict()
        """By arrival; its first is found in constant time, however many have left before it."""
        self._arrived: list[PendingGang] = []
        """Gangs that began to wait since the last plan, or since the last time at which no gang could start."""
        self._freed = False
        """Whether anything was released since then."""
        self._holding: dict[str, tuple[PendingGang, RunningGang]] = {}
        self._due: int | None = None
        """When the last plan is to be repeated without an event."""
        self._ends: list[tuple[int, int, str, EndCause]] = []
        """(time, start of the run, id, cause): outdated if the job has another run by then."""
        self._work_left = {gang.id: trace.jobs[gang.number - 1].duration for gang in gangs}

    def moments(self) -> Iterator[int]:
        """Yields every time at which something happens."""
        while self._arriving or self._ends:
            ends = self._ends[0][0] if self._ends else None
            arrives = self._arriving[-1].since if self._arriving else None
            yield min(moment for moment in (ends, arrives, self._due) if moment is not None)

    def end_runs(self, now: int) -> None:
        while self._ends and self._ends[0][0] <= now:
            _, begin, job_id, cause = heappop(self._ends)
            held = self._holding.get(job_id)
            if held is not None and held[1].admitted_at == begin:
                self._stop(job_id, now, cause)
                self.done += 1

    def add_arrivals(self, now: int) -> None:
        while self._arriving and self._arriving[-1].since <= now:
            gang = self._arriving.pop()
            if not (self._is_alone(now) and self._starts_at_once(gang, now)):
                self._wait(gang)

    def decide(self, now: int) -> None:
        """Plans until a plan stops no gang: the next plan assigns what a stopped gang held."""
        arrived, self._arrived = self._arrived, []
        freed, self._freed = self._freed, False
        self._due = None
        if not self._waiting or (self._shortcuts.apply and self._decides_without_plan(arrived, now, freed=freed)):
            return
        while self._waiting and self._carry_out(schedule(self._ledger.snapshot(), now), now):
            pass

    def _decides_without_plan(self, arrived: list[PendingGang], now: int, *, freed: bool) -> bool:
        """Tells whether no gang starts, or only gangs that have just been started."""
        first = next(iter(self._waiting.values()))
        unchanged = not freed and first not in arrived
        if unchanged and self._shortcuts.is_blocked(first, arrived):
            return True
        return self._starts_in_strict_order(now) or self._shortcuts.has_no_fit()

    def _starts_in_strict_order(self, now: int) -> bool:
        """Starts gangs in order, up to the first that does not fit. Returns False if that needs a plan."""
        while self._waiting:
            first = next(iter(self._waiting.values()))
            if not self._shortcuts.blocks_all(first):
                return False
            if not self._starts_at_once(first, now):
                return True
            del self._waiting[first.id]
            self._shortcuts.starts(first)
        return True

    def check(self) -> None:
        """Raises AssertionError if a gang still waits, which the scheduler must have forgotten."""
        assert not self._waiting, f"{sorted(self._waiting)[:3]} wait for ever"  # noqa: S101 - a bug of ours

    def _is_alone(self, now: int) -> bool:
        """Tells whether the gang that has just arrived is the only one that waits."""
        return not self._waiting and not (self._arriving and self._arriving[-1].since <= now)

    def _starts_at_once(self, gang: PendingGang, now: int) -> bool:
        found = self._shortcuts.alone(gang) if self._shortcuts.apply else None
        if found is not None:
            self._start(gang, found.placement, found.grant, now)
        return found is not None

    def _wait(self, gang: PendingGang) -> None:
        self._waiting[gang.id] = gang
        self._arrived.append(gang)
        self._shortcuts.waits(gang)
        self._ledger.add_pending(gang)

    def _start(self, gang: PendingGang, placement: Placement, grant: Grant | None, now: int) -> None:
        running = start_gang(gang, placement, now)
        self._ledger.hold(running, grant)
        self._holding[gang.id] = gang, running
        self._plan_end(gang, now)

    def _carry_out(self, plan: Plan, now: int) -> bool:
        self._due = plan.due
        for admission in plan.admissions:
            gang = self._waiting.pop(admission.job_id)
            self._shortcuts.starts(gang)
            self._start(gang, admission.placement, admission.grant, now)
        for preemption in plan.preemptions:
            gang, running = self._stop(preemption.job_id, now, EndCause.PREEMPTED)
            held = now - running.admitted_at
            self._work_left[gang.id] -= work_kept(held, self._costs, first=gang.run_time == 0, stopped=True)
            again = replace(gang, run_time=gang.run_time + held, service=running.service_at(now), stopped_at=now)
            self._wait(again)
        return bool(plan.preemptions)

    def _plan_end(self, gang: PendingGang, now: int) -> None:
        needs = time_needed(self._work_left[gang.id], self._costs, first=gang.run_time == 0)
        killed = self._kill and gang.walltime is not None and gang.walltime < needs
        end = now + (gang.walltime if killed and gang.walltime is not None else needs)
        heappush(self._ends, (end, now, gang.id, EndCause.KILLED if killed else EndCause.FINISHED))

    def _stop(self, job_id: str, now: int, cause: EndCause) -> tuple[PendingGang, RunningGang]:
        gang, running = self._holding.pop(job_id)
        self._freed = True
        self._ledger.release(job_id)
        self.record.add_run(gang.number - 1, gang.demands, running.placement, running.admitted_at, now, cause)
        return gang, running
