"""A scrape of 10,000 series by Prometheus: frames of 20 jobs with 62 ranks each, and their text.

Milliseconds of one core (`process_time`, the median of several rounds). The peer is `generate_latest` of
prometheus_client for the same series, whose values are ready in its families; rounds of both alternate.
"""

import json
import re
import statistics
import time
from collections.abc import Callable, Iterable
from typing import Any

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.registry import Collector

from windlass.core.lifecycle.transitions import create_state
from windlass.core.model.job import Job, Role
from windlass.server.telemetry_records.measurements import job_frame
from windlass.telemetry.exposition import render_frames
from windlass.telemetry.frames import MetricFrame
from windlass.telemetry.metric_table import METRICS

JOBS, RANKS, ROUNDS = 20, 62, 15
NOW = 1_700_000_000_000
SAMPLE = re.compile(r"(\w+)\{(.*)\} (\S+)")
LABEL = re.compile(r'(\w+)="([^"]*)"')
MEASURED = {
    "loss": 0.5,
    "step_ms": 200.0,
    "forward_ms": 50.0,
    "backward_ms": 100.0,
    "samples_per_second": 640.0,
    "utilisation": 0.4,
    "rank_step_ms": 200.0,
    "rank_busy_ms": 180.0,
    "rank_wait_ms": 20.0,
    "rank_memory": 3e9,
    "gpu_utilisation": 0.9,
    "gpu_memory": 4e9,
    "gpu_sm_clock": 1_400.0,
}


def main() -> None:
    text = render_frames(measure_frames(), ranks=True).decode()
    series = sum(not line.startswith("#") for line in text.splitlines())
    registry = CollectorRegistry(auto_describe=False)
    registry.register(Families(families(text)))
    frames = measure_frames()
    timed: dict[str, list[float]] = {"whole": [], "text": [], "peer": []}
    for _ in range(ROUNDS):
        timed["whole"].append(milliseconds(lambda: render_frames(measure_frames(), ranks=True)))
        timed["text"].append(milliseconds(lambda: render_frames(frames, ranks=True)))
        timed["peer"].append(milliseconds(lambda: generate_latest(registry)))
    whole, own, peer = (statistics.median(rounds) for rounds in timed.values())
    print(f"{series} series: {whole:.1f} ms, of that text {own:.1f} ms; {peer / own:.1f} times faster than the peer")
    print(json.dumps({"claim": f"scrape of {series:,} series", "measured": whole, "unit": "ms", "target": 50}))
    compared = {"peer": "prometheus_client generate_latest", "peer_measured": peer}
    claim = {"claim": f"text of {series:,} series", "measured": own, "unit": "ms", "target": 50}
    print(json.dumps({**claim, **compared}))


def measure_frames() -> list[MetricFrame]:
    """Frames of all jobs from the reports of their ranks."""
    frames = []
    for number in range(JOBS):
        job = Job("digits", (Role("worker", RANKS, {"gpu": 1}, ("python", "train.py")),))
        frames.append(job_frame(create_state(f"team/digits-{number}", number, job, NOW), reports(), NOW))
    return frames


def reports() -> list[dict[str, Any]]:
    beat = {"node": "n1", "pid": 1, "printed_at": NOW, "step": 10, "phase": "forward", "at": NOW}
    reported = {"values": MEASURED, "reported_step": 10, "reported_at": NOW}
    return [{"rank": rank, **beat, **reported} for rank in range(RANKS)]


class Families(Collector):
    """Ready families, so that only their text is measured."""

    def __init__(self, ready: list[GaugeMetricFamily]) -> None:
        self._ready = ready

    def collect(self) -> Iterable[GaugeMetricFamily]:
        return self._ready


def families(text: str) -> list[GaugeMetricFamily]:
    """The same series as families of prometheus_client."""
    made: dict[str, GaugeMetricFamily] = {}
    for name, written, value in SAMPLE.findall(text):
        labels = dict(LABEL.findall(written))
        family = made.setdefault(name, GaugeMetricFamily(name, METRICS[name].help, labels=tuple(labels)))
        family.add_metric(list(labels.values()), float(value))
    return list(made.values())


def milliseconds(work: Callable[[], object]) -> float:
    begin = time.process_time()
    work()
    return (time.process_time() - begin) * 1000


if __name__ == "__main__":
    main()
