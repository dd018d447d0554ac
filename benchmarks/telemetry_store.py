"""Size of the telemetry store after 1,000 jobs of a day, and the number of them that have a history.

50 jobs of 8 ranks run at a time, each for an hour, with a frame every five seconds in the newest of 20 hours and one a
minute before it: older frames are summaries of minutes by then. Values have noise, which compresses badly. The
peer is the same frames as rows of plain SQLite, each value with its time and the number of its series.
"""

import json
import sqlite3
import tempfile
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from windlass.telemetry.frames import MetricFrame, Tier, job_scope, scalar
from windlass.telemetry.store import TelemetryStore

JOBS, AT_ONCE, RANKS = 1_000, 50, 8
END = 1_700_000_000_000 // 3_600_000 * 3_600_000
HOUR_MS = 3_600_000
OF_JOB = ("loss", "step", "step_seconds", "samples_per_second", "memory_bytes")
OF_RANK = ("step", "step_seconds", "busy_seconds", "wait_seconds", "memory_bytes")


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        store = TelemetryStore.create(Path(folder, "telemetry.db"))
        rows = sqlite3.connect(Path(folder, "rows.db"))
        rows.execute("CREATE TABLE kept (series INTEGER, time INTEGER, value REAL, PRIMARY KEY (series, time))")
        for now, frames in hours():
            store.add(frames)
            store.compact(now)
            add_rows(rows, frames)
        size, kept = store.size(), sum(bool(store.frames(name, Tier.HOUR, 0, END)) for name in store.scopes())
        pages, each = (rows.execute(f"PRAGMA {name}").fetchone()[0] for name in ("page_count", "page_size"))
        store.close()
        rows.close()
    print(f"{kept} of {JOBS} jobs have summaries of hours; {size / JOBS / 1000:.1f} kB a job")
    compared = {"peer": "the same as rows of SQLite", "peer_measured": pages * each / 1e6}
    claim = {"claim": "store of 1,000 jobs of a day", "measured": size / 1e6, "unit": "MB", "target": 50}
    print(json.dumps({**claim, **compared}))


def hours() -> Iterator[tuple[int, list[MetricFrame]]]:
    """The end of each hour, and the frames of the jobs that ran in it."""
    noise = np.random.default_rng(1)
    count = JOBS // AT_ONCE
    for hour in range(count):
        start = END - (count - hour) * HOUR_MS
        every = 5_000 if hour == count - 1 else 60_000
        jobs = range(hour * AT_ONCE, (hour + 1) * AT_ONCE)
        times = range(start, start + HOUR_MS, every)
        yield start + HOUR_MS + 20_000, [frame(noise, number, at) for at in times for number in jobs]


def frame(noise: np.random.Generator, job: int, at: int) -> MetricFrame:
    values = {f"windlass_job_{name}": scalar(noise.normal(1, 0.05)) for name in OF_JOB}
    ranks = {f"windlass_rank_{name}": noise.normal(1, 0.05, RANKS).astype(np.float32) for name in OF_RANK}
    return MetricFrame(job_scope(f"job-{job}"), at, values | ranks)


def add_rows(rows: sqlite3.Connection, frames: list[MetricFrame]) -> None:
    """Adds the values of frames, of jobs that have no rows yet, to the peer."""
    known: dict[tuple[str, str, int], int] = {}
    first = rows.execute("SELECT coalesce(max(series), 0) FROM kept").fetchone()[0]
    found = [
        (known.setdefault((each.scope, name, rank), first + len(known) + 1), each.time, float(value))
        for each in frames
        for name, vector in each.values.items()
        for rank, value in enumerate(vector)
    ]
    with rows:
        rows.executemany("INSERT INTO kept VALUES (?, ?, ?)", found)


if __name__ == "__main__":
    main()
