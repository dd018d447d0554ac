"""The process of a what-if simulation: a request on stdin, lines of JSON on stdout: progress, then the result.

A process of its own keeps the work away from the controller's loop, and the limits of the operating system hold for
it. It ends when its stdin is closed: with the controller.
"""

from __future__ import annotations

import contextlib
import json
import os
import resource
import sys
import threading
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import msgspec

from windlass.backends.simulator import SimulationError
from windlass.backends.simulator.metrics import measure
from windlass.backends.simulator.replay import replay
from windlass.backends.simulator.report import Experiment, PolicyRun, build
from windlass.backends.simulator.report.experiment import TraceSource
from windlass.backends.simulator.report.page import render_page
from windlass.backends.simulator.study.run import describe_cluster
from windlass.backends.simulator.study.synthetic_trace import parse_synthetic_trace
from windlass.backends.simulator.traces.job import Trace
from windlass.backends.simulator.traces.read import read_trace
from windlass.jobs.cluster.cluster_file import Cluster
from windlass.jobs.cluster.policy_names import read_policies
from windlass.jobs.cluster.snapshot_file import from_plain
from windlass.server.dashboard.simulation_trace import cluster_of_snapshot, trace_of

MEMORY_BYTES, CPU_S = 2 << 30, 300
_NICENESS = 10
_HOUR_MS = 3_600_000
_SEED = 1


@dataclass(frozen=True, slots=True)
class SimulationRequest:
    """The live snapshot as plain data, and what to change. Without `synthetic` and `path` the live jobs are run."""

    snapshot: dict[str, Any] = field(default_factory=dict)
    order: Sequence[str] = ()
    policies: str = ""
    """As `windlass simulate --policy` takes them; empty: the cluster's own."""
    extra_nodes: int = 0
    unlimited_hours: int = 1
    """Duration of live jobs without a time limit."""
    synthetic: str = ""
    path: str = ""


def main() -> None:
    """Reads a request, simulates it under each policy, and prints the result or an error."""
    _limit()
    request = msgspec.json.decode(sys.stdin.buffer.readline(), type=SimulationRequest)
    threading.Thread(target=_end_with_parent, daemon=True).start()
    try:
        _print(result=_simulate(request))
    except (SimulationError, ValueError) as error:
        _print(error=str(error))


def _limit() -> None:
    os.nice(_NICENESS)
    limits = ((resource.RLIMIT_AS, MEMORY_BYTES), (resource.RLIMIT_CPU, CPU_S), (resource.RLIMIT_CORE, 0))
    for kind, limit in limits:
        with contextlib.suppress(ValueError):  # a lower limit holds already
            resource.setrlimit(kind, (limit, limit))


def _end_with_parent() -> None:
    sys.stdin.buffer.read()
    os._exit(1)


def _simulate(request: SimulationRequest) -> dict[str, Any]:
    # 1. the cluster, the policies and the jobs
    taken = from_plain(request.snapshot)
    cluster = cluster_of_snapshot(taken.snapshot, request.extra_nodes)
    if not cluster.nodes:
        raise SimulationError("no node is left; remove fewer nodes")
    policies = read_policies([request.policies or "cluster"], cluster.policy)
    trace = _trace(request, taken.snapshot, taken.now, cluster)
    if not trace.jobs:
        raise SimulationError("there is no job to simulate; choose random jobs or a trace")
    # 2. one run for each policy; live jobs arrive together, so that no load is offered over a time
    is_live = not (request.path or request.synthetic)
    runs = []
    for number, (name, policy) in enumerate(policies.items()):
        advance = partial(_print_progress, number, len(policies))
        outcome = replay(trace, cluster, policy, skip_bad=True, on_progress=advance)
        metrics = measure(outcome)
        runs.append(PolicyRun(name, _SEED, replace(metrics, offered_load=0.0) if is_live else metrics, outcome))
    # 3. the report of `windlass simulate`
    source = TraceSource(trace.name, "the dashboard", len(trace.jobs))
    conditions = ("Every job uses its whole time limit.",) if is_live else ()
    experiment = Experiment("windlass ui", (source,), describe_cluster(cluster), policies, (_SEED,), "", conditions)
    report = build(experiment, runs)
    shown = {name: report[name] for name in ("heading", "summary", "cluster", "policies", "figures", "charts")}
    return {**shown, "jobs": len(trace.jobs), "left_out": runs[0].metrics.left_out, "page": render_page(report)}


def _trace(request: SimulationRequest, snapshot: Any, now: int, cluster: Cluster) -> Trace:
    if request.path:
        return read_trace(request.path, None, skip_bad=True)
    if request.synthetic:
        return parse_synthetic_trace(request.synthetic, cluster).trace(_SEED)
    return trace_of(snapshot, request.order, now, request.unlimited_hours * _HOUR_MS)


def _print_progress(run: int, runs: int, done: int, jobs: int) -> None:
    _print(progress=(run + done / max(1, jobs)) / runs)


def _print(**line: Any) -> None:
    sys.stdout.write(json.dumps(line, default=dict) + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main()
