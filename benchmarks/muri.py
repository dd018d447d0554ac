"""Muri's traces under three preemptive policies, against the published average completion times.

Zhao et al., "Multi-Resource Interleaving for Deep Learning Training" (SIGCOMM 2022): 8 nodes × 8 GPUs, run times known,
all gangs are sorted and placed on an empty cluster at every event.
"""

import json
import os
import time
from dataclasses import replace
from pathlib import Path

from windlass.backends.simulator import measure, read_nodes, read_trace, replay, with_walltimes
from windlass.core.queues.orders.registry import POLICIES

TRACES = Path(os.environ.get("WINDLASS_TRACES", Path(__file__).parents[2] / "shared/data")) / "muri"
NAMES = {"srtf": "SRTF", "srsf": "SRSF", "las": "Tiresias-L"}
PUBLISHED = {
    "trace3": {"srtf": 193_082, "srsf": 185_022, "las": 347_213},
    "trace4": {"srtf": 581_983, "srsf": 487_167, "las": 1_319_383},
}
"""Average completion time in s."""
WITHIN = 2.0
"""Per cent."""


def main() -> None:
    if not TRACES.is_dir():
        print(f"no {TRACES}: set WINDLASS_TRACES to the folder of the public traces")
        return
    cluster = read_nodes(str(TRACES / "n8g8.csv"))
    for name, published in PUBLISHED.items():
        trace = with_walltimes(read_trace(TRACES / f"{name}.csv.gz"), "exact", 0)
        for order, seconds in published.items():
            begin = time.perf_counter()
            outcome = replay(trace, cluster, replace(POLICIES[order], min_runtime=0))
            took = time.perf_counter() - begin
            found = measure(outcome).everything.jct.avg / 1000
            off = 100 * (found / seconds - 1)
            print(f"{name}, {len(trace.jobs):,} jobs, {NAMES[order]}: {found:,.0f} s ({off:+.2f} %), in {took:.1f} s")
            what = f"Muri {name}, {NAMES[order]}: average JCT off the published {seconds:,} s by"
            print(json.dumps({"claim": what, "measured": abs(off), "unit": "%", "target": WITHIN}), flush=True)


if __name__ == "__main__":
    main()
