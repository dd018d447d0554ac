"""The project's own trace under FIFO, EASY and `windlass`; it needs no other data."""

import json
import time
from pathlib import Path

from windlass.backends.simulator import Metrics, measure, read_nodes, read_trace, replay
from windlass.core.queues.orders.registry import POLICIES

TRACES = Path(__file__).parents[1] / "examples/traces"
FILES = ("daily.jsonl.gz", "daily.yaml")


def main() -> None:
    trace, cluster = read_trace(TRACES / FILES[0]), read_nodes(str(TRACES / FILES[1]))
    found: dict[str, Metrics] = {}
    for name in ("fifo", "easy", "windlass"):
        begin = time.perf_counter()
        found[name] = measure(replay(trace, cluster, POLICIES[name]))
        everything = found[name].everything
        print(f"{name}: {time.perf_counter() - begin:.1f} s; wait {everything.wait.avg / 3_600_000:.2f} h on average")
    ours, easy = found["windlass"].everything, found["easy"].everything
    what = f"{FILES[0]}, {len(trace.jobs):,} jobs under `windlass`"
    for claim, value, bound, unit in (
        ("average wait, below EASY's", ours.wait.avg / 3_600_000, easy.wait.avg / 3_600_000, "h"),
        ("p99 bounded slowdown, below EASY's", ours.slowdown.p99, easy.slowdown.p99, "×"),
        ("longest wait, within FIFO's", ours.wait.max / 3_600_000, found["fifo"].everything.wait.max / 3_600_000, "h"),
    ):
        print(json.dumps({"claim": f"{what}: {claim}", "measured": value, "unit": unit, "target": bound}))


if __name__ == "__main__":
    main()
