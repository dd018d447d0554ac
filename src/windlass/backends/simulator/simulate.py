"""Simulates a trace through the real controller: slower than a replay, with faults."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Coroutine, Iterable
from functools import partial
from typing import Any, TypeAlias

from windlass.backends.port import ClusterChanged, JobArrived
from windlass.backends.simulator.backend import SimulationOver, SimulatorBackend
from windlass.backends.simulator.faults import Fault
from windlass.backends.simulator.gangs import id_of, job_of, number_of, sizes_of, unit_of
from windlass.backends.simulator.outcome import EndCause, Outcome
from windlass.backends.simulator.progress import Costs
from windlass.backends.simulator.record import RunRecord
from windlass.backends.simulator.replay import fitting_gangs, queues_of
from windlass.backends.simulator.script import Delays, Script
from windlass.backends.simulator.traces.job import Trace
from windlass.backends.simulator.universe import Universe
from windlass.core.model.gang import demands_of
from windlass.core.model.job import Job
from windlass.core.model.policy import Policy
from windlass.core.model.status import Placement
from windlass.core.nodes.node_table import build_table
from windlass.jobs.cluster.cluster_file import Cluster

Controlled: TypeAlias = Callable[[SimulatorBackend], Coroutine[Any, Any, None]]
"""Starts a controller on a backend and drives it until the end, as `windlass.controller.run` does."""

NOT_ENDED = "not ended: no event of the simulation would start it"


def simulate(
    trace: Trace,
    cluster: Cluster,
    policy: Policy | None,
    controlled: Controlled,
    *,
    costs: Costs | None = None,
    delays: Delays | None = None,
    faults: Iterable[Fault] = (),
    skip_bad: bool = False,
) -> Outcome:
    """Runs every job of the trace on the cluster, with faults.

    As in `replay`, but walltimes always end jobs, and failed jobs restart without limit. A job that never ends because
    its nodes never recover is counted among those left out. Raises TraceError as `replay`.
    """
    policy = policy or Policy()
    queues = queues_of(trace, cluster)
    table = build_table(cluster.nodes, cluster.topology, epoch=0)
    gangs, left_out = fitting_gangs(trace, cluster, table, skip_bad=skip_bad)
    record = RunRecord(table, unit_of(trace))
    sizes = sizes_of(cluster.nodes)
    # 1. a universe with everything that will happen
    universe = Universe(
        ClusterChanged(cluster.nodes, queues, cluster.topology, policy),
        lambda job_id, _job: Script(work=trace.jobs[number_of(job_id) - 1].duration),
        costs=costs,
        delays=delays,
        start=trace.jobs[0].submit,
        on_run_end=partial(_record, record),
    )
    for gang in gangs:
        job = trace.jobs[gang.number - 1]
        universe.timeline.arrive(job.submit, JobArrived(id_of(gang.number), gang.number, job_of(job, sizes)))
    universe.schedule_faults(faults)
    # 2. run it
    drive(controlled(SimulatorBackend(universe)))
    # 3. the jobs that are left
    waiting = sum(not state.status.finished_at for state in universe.states.values())
    return record.outcome(trace, cluster, policy, left_out + Counter({NOT_ENDED: waiting} if waiting else {}))


def drive(running: Coroutine[Any, Any, None]) -> None:
    """Steps a controller on the simulator until nothing is scheduled. It never waits for anything else."""
    try:
        running.send(None)
    except (SimulationOver, StopIteration):
        return
    finally:
        running.close()


def _record(
    record: RunRecord, job_id: str, job: Job, placement: Placement, begin: int, end: int, cause: EndCause
) -> None:
    record.add_run(number_of(job_id) - 1, demands_of(job), placement, begin, end, cause)
