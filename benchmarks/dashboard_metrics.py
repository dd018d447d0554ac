"""Answers of `/api/metrics` of an hour-long job of 64 ranks, at 20 versions of the state.

The job has a frame every 2 seconds. Versions of the state grow up to 20 times a second, and each makes the open pages
of a job ask again. The measured time is the CPU time of all 20 answers (`process_time`); the text has the longest
answer and the longest delay of the event loop, which also renews the Lease of an operator.
"""

import asyncio
import json
import tempfile
import time
from functools import partial
from pathlib import Path
from typing import Any

import telemetry_week
from windlass.core.model.job import Job, Role
from windlass.server.dashboard.view import View
from windlass.server.dashboard.view_cache import ViewCache
from windlass.server.telemetry_records.queries import HistorySpan, job_metrics, stored_stamp
from windlass.telemetry.frames import job_scope

RANKS, VERSIONS = 64, 20
TICK_S = 0.01
ID = "digits-1"


def main() -> None:
    telemetry_week.RANKS, telemetry_week.WEEK_MS = RANKS, telemetry_week.HOUR_MS
    telemetry_week.JOB = Job("digits", (Role("worker", RANKS, {"gpu": 1}, ("python", "train.py")),))
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "telemetry.db")
        telemetry_week.record(path)
        asyncio.run(measure(path))


async def measure(path: Path) -> None:
    cache, took, late = ViewCache(), list[float](), list[float]()

    async def produce() -> Any:
        return await asyncio.to_thread(job_metrics, path, ID, HistorySpan())

    view = View(("metrics", ID), produce, partial(asyncio.to_thread, stored_stamp, path, job_scope(ID)))
    ticking, begin = asyncio.create_task(tick(late)), time.process_time()
    for version in range(VERSIONS):
        asked = time.perf_counter()
        answer = await cache.answer("user", view, version)
        took.append(time.perf_counter() - asked)
    busy = time.process_time() - begin
    ticking.cancel()
    print(f"longest answer {max(took):.2f} s, event loop delayed by up to {max(late) * 1000:.0f} ms")
    print(f"{len(answer.plain) / 1e6:.1f} MB of JSON, {len(answer.compressed or b'') / 1e3:.0f} kB compressed")
    print(json.dumps({"claim": f"{VERSIONS} versions of a job's metrics", "measured": busy, "unit": "s", "target": 1}))


async def tick(late: list[float]) -> None:
    """Notes how much later than asked for the event loop goes on."""
    while True:
        begin = time.perf_counter()
        await asyncio.sleep(TICK_S)
        late.append(time.perf_counter() - begin - TICK_S)


if __name__ == "__main__":
    main()
