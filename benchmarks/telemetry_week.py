"""Query of a week of one job's stored telemetry, and the size of its store.

The job has 8 ranks. Its frames are those of a week: one in 30 seconds, one in 2 seconds of the last hour, compacted as
the recorder does. The measured time is that of `windlass metrics` without its process: opening the file, reading,
choosing at most as many points as an answer has. It is the median of several rounds, in CPU time (`process_time`);
the text has the elapsed time too, which other programs lengthen.
"""

import json
import math
import statistics
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from windlass.core.lifecycle.transitions import create_state
from windlass.core.model.job import Job, Role
from windlass.server.telemetry_records.measurements import job_frame
from windlass.server.telemetry_records.queries import HistorySpan, job_metrics
from windlass.telemetry.frames import MetricFrame
from windlass.telemetry.store import TelemetryStore

RANKS, ROUNDS = 8, 15
NOW = 1_700_000_000_000
HOUR_MS, WEEK_MS = 3_600_000, 7 * 24 * 3_600_000
BATCH = 20
"""Frames of one transaction: the benchmark measures reading, so it need not write each by itself."""
JOB = Job("digits", (Role("worker", RANKS, {"gpu": 1}, ("python", "train.py")),))


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "telemetry.db")
        size = record(path)
        timed, elapsed = [], []
        for _ in range(ROUNDS):
            begin, begin_cpu = time.perf_counter(), time.process_time()
            found = job_metrics(path, "digits-1", HistorySpan(NOW - WEEK_MS))
            timed.append((time.process_time() - begin_cpu) * 1000)
            elapsed.append((time.perf_counter() - begin) * 1000)
    hours = (found["series"][0]["times"][-1] - found["series"][0]["times"][0]) / HOUR_MS
    assert hours > 24 * 6
    print(f"{len(found['series'])} series over {hours:.0f} hours, {statistics.median(elapsed):.0f} ms elapsed")
    took = statistics.median(timed)
    print(json.dumps({"claim": "query of a week of one job", "measured": took, "unit": "ms", "target": 100}))
    print(json.dumps({"claim": "store with a week of one job", "measured": size / 1e6, "unit": "MB", "target": 50}))


def record(path: Path) -> int:
    """Writes the week. Returns the size of the store in bytes."""
    store, batch = TelemetryStore.create(path), []
    for frame in frames():
        batch.append(frame)
        if len(batch) == BATCH:
            store.add(batch)
            store.compact(frame.time)
            batch = []
    size = store.size()
    store.close()
    return size


def frames() -> Iterator[MetricFrame]:
    state, at, step = create_state("digits-1", 1, JOB, NOW - WEEK_MS), NOW - WEEK_MS, 0
    while at < NOW:
        step += 1
        loss = 2 * math.exp(-step / 5_000) + 0.01 * math.sin(step)
        spent = {"step_ms": 200 + step % 7, "forward_ms": 60 + step % 5, "rank_busy_ms": 180 + step % 11}
        values = {"loss": loss, "samples_per_second": 640.0, "rank_memory": 3e9, **spent}
        beat = {"node": "n1", "pid": 1, "printed_at": at, "step": step, "phase": "forward", "at": at}
        ranks = [
            {"rank": rank, **beat, "values": values, "reported_step": step, "reported_at": at} for rank in range(RANKS)
        ]
        yield job_frame(state, ranks, at)
        at += 2_000 if at >= NOW - HOUR_MS else 30_000


if __name__ == "__main__":
    main()
