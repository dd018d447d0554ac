"""Philly's 82,247 jobs on nodes of 8 GPUs, with walltimes such as users write: time and results of a replay.

At 768 GPUs there are hours of contention, at 512 months of it. There is no published figure to compare with: EASY and
FIFO are replayed on the same nodes with the same walltimes. Users' walltimes are random, so results are reported for
several seeds; the first is replayed alone, and timed.
"""

import argparse
import json
import os
import time
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from functools import cache
from itertools import product
from multiprocessing import get_context
from pathlib import Path
from typing import NamedTuple

from windlass.backends.simulator import Trace, cluster_of, measure, read_trace, replay, with_walltimes
from windlass.core.model.job import DEFAULT_QUEUE
from windlass.core.queues.orders.registry import POLICIES
from windlass.server.garbage_collection import collect_rarely

TRACE = Path(os.environ.get("WINDLASS_TRACES", Path(__file__).parents[2] / "shared/data")) / "philly/philly.csv.gz"
SECONDS = {"fifo": 8, "easy": 20, "windlass": 30}
"""The targets of a replay at 768 GPUs, by policy."""
HOUR = 3_600_000


class Case(NamedTuple):
    """One replay."""

    gpus: int
    seed: int
    policy: str
    queues: bool


class Result(NamedTuple):
    """Result of a replay: waits in ms, `took` in seconds."""

    case: Case
    took: float
    jobs: int
    wait: float
    p99_wait: float
    longest: float
    slowdown: float
    p99_slowdown: float


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--gpus", type=int, nargs="+", default=[768, 512], help="sizes of the cluster")
    parser.add_argument("--seeds", type=int, default=2, help="number of seeds of the walltimes, from 1 on")
    parser.add_argument("--queues", action="store_true", help="keep the trace's 15 virtual clusters apart, as queues")
    options = parser.parse_args()
    if not TRACE.exists():
        print(f"no {TRACE}: set WINDLASS_TRACES to the folder of the public traces")
        return
    collect_rarely()  # as `simulate` does
    found = {one.case: one for one in run_all(options.gpus, options.seeds, queues=options.queues)}
    for gpus in options.gpus:
        compare(gpus, [one for one in found.values() if one.case.gpus == gpus])


def run_all(sizes: list[int], seeds: int, *, queues: bool) -> Iterator[Result]:
    alone = [Case(sizes[0], 1, policy, queues) for policy in SECONDS]
    for case in alone:
        found = run_case(case)
        report(found)
        if case.gpus == 768:
            words = f"Philly, {found.jobs:,} jobs on 96 nodes × 8 GPUs: simulation of `{case.policy}`"
            claim(words, found.took, "s", SECONDS[case.policy])
        yield found
    cases = (Case(gpus, seed, policy, queues) for gpus, seed, policy in product(sizes, range(1, seeds + 1), SECONDS))
    rest = [case for case in cases if case not in alone]
    with ProcessPoolExecutor(mp_context=get_context("forkserver"), initializer=collect_rarely) as pool:
        for found in pool.map(run_case, rest):
            report(found)
            yield found


def run_case(case: Case) -> Result:
    trace = trace_of(case.seed, queues=case.queues)
    begin = time.perf_counter()
    outcome = replay(trace, cluster_of(case.gpus // 8, 8), POLICIES[case.policy])
    took = time.perf_counter() - begin
    jobs = measure(outcome).everything
    wait, slowdown = jobs.wait, jobs.slowdown
    return Result(case, took, len(trace.jobs), wait.avg, wait.p99, wait.max, slowdown.avg, slowdown.p99)


@cache
def trace_of(seed: int, *, queues: bool) -> Trace:
    trace = with_walltimes(read_trace(TRACE), "users", seed)
    if queues:
        return trace
    # FIFO and EASY have no fairness between queues, so it is kept out of the comparison
    return replace(trace, jobs=tuple(replace(job, queue=DEFAULT_QUEUE) for job in trace.jobs))


def report(found: Result) -> None:
    case = found.case
    print(
        f"{case.gpus} GPUs, seed {case.seed}, {case.policy:8} {found.took:5.1f} s: wait {found.wait / 1000:,.0f} s, "
        f"p99 {found.p99_wait / HOUR:.2f} h, longest {found.longest / HOUR:.1f} h; "
        f"bounded slowdown {found.slowdown:.2f}, p99 {found.p99_slowdown:.1f}",
        flush=True,
    )


def compare(gpus: int, found: list[Result]) -> None:
    """Report means over the seeds, and the longest wait of the seed in which it is worst compared with FIFO's."""
    by = {policy: [one for one in found if one.case.policy == policy] for policy in SECONDS}
    what = f"Philly at {gpus} GPUs, users' walltimes, `windlass`:"
    wait = {policy: sum(one.wait for one in ones) / len(ones) / 1000 for policy, ones in by.items()}
    p99 = {policy: sum(one.p99_slowdown for one in ones) / len(ones) for policy, ones in by.items()}
    claim(f"{what} average wait, below EASY's", wait["windlass"], "s", wait["easy"])
    claim(f"{what} p99 bounded slowdown, below EASY's", p99["windlass"], "×", p99["easy"])
    ours, fifo = max(zip(by["windlass"], by["fifo"], strict=True), key=lambda pair: pair[0].longest / pair[1].longest)
    claim(f"{what} longest wait, within FIFO's", ours.longest / HOUR, "h", fifo.longest / HOUR)


def claim(words: str, measured: float, unit: str, target: float) -> None:
    print(json.dumps({"claim": words, "measured": measured, "unit": unit, "target": target}), flush=True)


if __name__ == "__main__":
    main()
