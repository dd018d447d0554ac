"""Carries out a study: reads the traces, runs every policy and seed in parallel, measures the outcomes."""

from __future__ import annotations

import functools
import hashlib
import heapq
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from windlass.backends.simulator.metrics import measure
from windlass.backends.simulator.outcome import Outcome
from windlass.backends.simulator.replay import replay
from windlass.backends.simulator.report import Experiment, PolicyRun
from windlass.backends.simulator.report.experiment import TraceSource
from windlass.backends.simulator.report.number_format import format_count
from windlass.backends.simulator.simulate import Controlled, simulate
from windlass.backends.simulator.study.load import at_load
from windlass.backends.simulator.study.parallel_runs import Advance, run_in_parallel
from windlass.backends.simulator.study.study import Study
from windlass.backends.simulator.traces.job import Trace
from windlass.backends.simulator.traces.read import FORMATS, read_trace
from windlass.backends.simulator.walltimes import with_walltimes
from windlass.core.model.resources import CPU, GPU
from windlass.jobs.cluster.cluster_file import Cluster

WALLTIME_TEXTS = {
    "trace": "",
    "none": "No job has a walltime.",
    "exact": "Every job's walltime is its run time to the millisecond.",
    "users": "Walltimes are modelled after users' estimates: mostly too long, and round (Tsafrir et al.).",
}

UNCOUNTED_CORES = "Cores that jobs request are not counted, because the cluster does not state how many its nodes have."


def run_study(
    study: Study,
    command: str,
    controlled: Controlled,
    *,
    processes: int,
    on_progress: Callable[[float, int, int], None] = lambda _share, _ended, _runs: None,
) -> tuple[Experiment, list[PolicyRun]]:
    """Returns every run, ordered by policy, then seed. Calls `on_progress(share done, runs ended, runs)` repeatedly.

    `command` is the command line that the report shows for repetition; `controlled` drives runs with faults. Raises
    SimulationError.
    """
    # 1. the trace, read once
    traces = [read_trace(path, study.format, skip_bad=study.skip_bad) for path in study.traces]
    whole = _joined(traces) if traces else None
    # 2. the runs: where nothing is random, one run per policy suffices
    seeds = study.seeds if study.random else study.seeds[:1]
    first = trace_of(study, whole, seeds[0])
    tasks = [
        functools.partial(_run, study, whole, first if seed == seeds[0] else None, policy, seed, controlled)
        for policy in study.policies
        for seed in seeds
    ]
    # 3. in parallel; outcomes come back without their trace, which this process already has
    jobs = len(first.jobs) * len(tasks)
    runs = run_in_parallel(tasks, processes, lambda done, ended: on_progress(sum(done) / jobs, ended, len(tasks)))
    runs = [run if run.outcome is None else replace(run, outcome=replace(run.outcome, trace=first)) for run in runs]
    return _experiment(study, command, traces, first, seeds), runs


def trace_of(study: Study, whole: Trace | None, seed: int) -> Trace:
    """Returns the trace of one seed: read or drawn, then cut, stretched and given walltimes."""
    trace = study.drawn.trace(seed) if study.drawn else whole
    assert trace is not None, "a study has traces or a distribution"  # noqa: S101 - a bug of ours
    if study.limit is not None:
        trace = replace(trace, jobs=trace.jobs[: study.limit])
    if study.load is not None:
        trace = at_load(trace, study.cluster, study.load)
    return with_walltimes(trace, study.walltimes, seed)


def _run(
    study: Study,
    whole: Trace | None,
    first: Trace | None,
    policy: str,
    seed: int,
    controlled: Controlled,
    advance: Advance,
) -> PolicyRun:
    """Runs one policy under one seed. `first`: the trace of the first seed, whose outcome is returned for charts."""
    trace = first or trace_of(study, whole, seed)
    outcome = _outcome(study, trace, policy, seed, controlled, advance)
    return PolicyRun(policy, seed, measure(outcome), _light(outcome) if first else None)


def _outcome(study: Study, trace: Trace, policy: str, seed: int, controlled: Controlled, advance: Advance) -> Outcome:
    if study.faults is None:
        return replay(
            trace,
            study.cluster,
            study.policies[policy],
            costs=study.costs,
            kill=study.kill,
            skip_bad=study.skip_bad,
            on_progress=lambda done, _all: advance(done),
        )
    return simulate(
        trace,
        study.cluster,
        study.policies[policy],
        controlled,
        costs=study.costs,
        faults=study.faults.of(trace, [node.name for node in study.cluster.nodes], seed),
        skip_bad=study.skip_bad,
    )


def _light(outcome: Outcome) -> Outcome:
    """Removes the trace, which would be most of the message between processes."""
    return replace(outcome, trace=replace(outcome.trace, jobs=()))


def _joined(traces: list[Trace]) -> Trace:
    """Joins the parts of a trace that come from several files."""
    if len(traces) == 1:
        return traces[0]
    left_out: Counter[str] = Counter()
    for trace in traces:
        left_out.update(trace.left_out)
    parts = ((replace(job, file=number) for job in trace.jobs) for number, trace in enumerate(traces))
    jobs = heapq.merge(*parts, key=lambda job: job.submit)
    names = ", ".join(trace.name for trace in traces)
    files = tuple(file for trace in traces for file in trace.files)
    return Trace(names, traces[0].format, tuple(jobs), dict(left_out), files)


# --- as text ----------------------------------------------------------------------------------------


def _experiment(study: Study, command: str, traces: list[Trace], first: Trace, seeds: tuple[int, ...]) -> Experiment:
    drawn = study.drawn
    read = [
        TraceSource(trace.name, FORMATS[trace.format], len(trace.jobs), _sha256(path))
        for trace, path in zip(traces, study.traces, strict=True)
    ]
    return Experiment(
        command=command,
        sources=tuple(read) if drawn is None else (TraceSource("drawn", drawn.about, len(first.jobs)),),
        cluster=describe_cluster(study.cluster),
        policies=study.policies,
        seeds=seeds,
        random=study.random,
        conditions=_conditions(study, first),
    )


def _conditions(study: Study, trace: Trace) -> tuple[str, ...]:
    costs = study.costs
    has_cores = any(CPU in node.capacity for node in study.cluster.nodes)
    texts = (
        f"Only the first {study.limit:,} jobs." if study.limit is not None else "",
        f"Arrivals were scaled to an offered load of {study.load:g}." if study.load is not None else "",
        WALLTIME_TEXTS[study.walltimes],
        "Jobs end when their walltime is over." if study.kill else "",
        "Starts, restarts and checkpoints take time." if any((costs.start, costs.restart, costs.checkpoint)) else "",
        study.faults.about if study.faults else "",
        UNCOUNTED_CORES if not has_cores and any(job.cpu for job in trace.jobs) else "",
    )
    return tuple(filter(None, texts))


def _sha256(path: str) -> str:
    with Path(path).open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def describe_cluster(cluster: Cluster) -> str:
    """Describes a cluster: "96 nodes with 8 GPUs each", "1,213 nodes with 6,212 GPUs"."""
    counts = {node.capacity.get(GPU, 0) for node in cluster.nodes}
    nodes, total = len(cluster.nodes), sum(node.capacity.get(GPU, 0) for node in cluster.nodes)
    if not total:
        return format_count(nodes, "node")
    gpus = f"{format_count(counts.pop(), 'GPU')} each" if len(counts) == 1 and nodes > 1 else format_count(total, "GPU")
    return f"{format_count(nodes, 'node')} with {gpus}"
