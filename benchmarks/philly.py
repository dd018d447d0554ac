"""Philly's 82,247 jobs on nodes of 8 GPUs, walltimes such as users write: how long a replay takes, and what it finds.

At 768 GPUs there are hours of contention, at 512 months of it. Without a target of others: EASY and FIFO are replayed
on the same nodes with the same walltimes.
"""

import argparse
import json
import os
import time
from dataclasses import replace
from pathlib import Path

from windlass.core.job import DEFAULT_QUEUE
from windlass.core.policy import POLICIES
from windlass.worlds.sim import Metrics, Trace, cluster_of, measure, read_trace, replay, with_walltimes

TRACE = Path(os.environ.get("WINDLASS_TRACES", Path(__file__).parents[2] / "shared/data")) / "philly/philly.csv.gz"
SECONDS = {"fifo": 8, "easy": 20, "windlass": 30}
"""The targets of a replay at 768 GPUs, by policy."""
HOUR = 3_600_000


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--gpus", type=int, nargs="+", default=[768, 512], help="sizes of the cluster")
    parser.add_argument("--seed", type=int, default=1, help="of the walltimes")
    parser.add_argument("--queues", action="store_true", help="keep the trace's 15 virtual clusters apart, as queues")
    asked = parser.parse_args()
    if not TRACE.exists():
        print(f"no {TRACE}: WINDLASS_TRACES says where the public traces are")
        return
    trace = with_walltimes(read_trace(TRACE), "users", asked.seed)
    if not asked.queues:
        # FIFO and EASY know no fairness between queues, so it is kept out of the comparison
        trace = replace(trace, jobs=tuple(replace(job, queue=DEFAULT_QUEUE) for job in trace.jobs))
    for gpus in asked.gpus:
        found = {name: replayed(trace, gpus, name) for name in SECONDS}
        compare(gpus, found)


def replayed(trace: Trace, gpus: int, name: str) -> Metrics:
    begin = time.perf_counter()
    outcome = replay(trace, cluster_of(gpus // 8, 8), POLICIES[name])
    took = time.perf_counter() - begin
    found = measure(outcome)
    wait, slowdown = found.everything.wait, found.everything.slowdown
    print(
        f"{gpus} GPUs, {name:8} {took:5.1f} s: wait {wait.avg / 1000:,.0f} s, p99 {wait.p99 / HOUR:.2f} h, "
        f"longest {wait.max / HOUR:.1f} h; bounded slowdown {slowdown.avg:.2f}, p99 {slowdown.p99:.1f}",
        flush=True,
    )
    if gpus == 768:
        claim(
            f"Philly, {len(trace.jobs):,} jobs on 96 nodes × 8 GPUs: simulation of `{name}`", took, "s", SECONDS[name]
        )
    return found


def compare(gpus: int, found: dict[str, Metrics]) -> None:
    ours, easy, fifo = (found[name].everything for name in ("windlass", "easy", "fifo"))
    what = f"Philly at {gpus} GPUs, users' walltimes, `windlass`:"
    claim(f"{what} average wait, below EASY's", ours.wait.avg / 1000, "s", easy.wait.avg / 1000)
    claim(f"{what} p99 bounded slowdown, below EASY's", ours.slowdown.p99, "×", easy.slowdown.p99)
    claim(f"{what} longest wait, within FIFO's", ours.wait.max / HOUR, "h", fifo.wait.max / HOUR)


def claim(words: str, measured: float, unit: str, target: float) -> None:
    print(json.dumps({"claim": words, "measured": measured, "unit": unit, "target": target}), flush=True)


if __name__ == "__main__":
    main()
