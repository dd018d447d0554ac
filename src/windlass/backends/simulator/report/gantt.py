"""The Gantt chart: which job held which part of which node, in one time window for all policies."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from windlass.backends.simulator.gangs import requested_units
from windlass.backends.simulator.outcome import Outcome
from windlass.backends.simulator.report import timeline
from windlass.backends.simulator.report.charts import NOUNS, interval_edges
from windlass.backends.simulator.report.lanes import Lanes, Piece
from windlass.backends.simulator.report.number_format import format_count, format_duration

MAX_BARS = 4_000
"""Maximum number of bars per policy: more can neither be distinguished nor redrawn during a drag."""
MAX_NODES = 128
_PARTS = 4_096
"""The window is at least the whole time divided by this."""


@dataclass(frozen=True, slots=True)
class TimeWindow:
    """A time window from `begin` to `end`, in ms, over the first `nodes` rows."""

    begin: int
    end: int
    nodes: int

    def seats(self, outcome: Outcome) -> NDArray[np.intp]:
        """Returns the indices of the outcome's seats that overlap the window."""
        run = np.repeat(np.arange(len(outcome.job)), np.diff(outcome.seats))
        seen = (outcome.end[run] > self.begin) & (outcome.begin[run] < self.end) & (outcome.row < self.nodes)
        return np.flatnonzero(seen & (outcome.amount > 0))


def gantt(drawn: Mapping[str, Outcome]) -> dict[str, Any] | None:
    """Returns the chart as plain data, times in seconds since the first submission; None if nothing ran."""
    first = next(iter(drawn.values()))
    if not any(len(outcome.end) for outcome in drawn.values()):
        return None
    window = _window(list(drawn.values()))
    zero = int(first.submit[0])
    jobs: dict[int, int] = {}
    bars = [_bars(outcome, window, zero, jobs) for outcome in drawn.values()]
    queues = sorted({first.trace.jobs[job].queue for job in jobs})
    return {
        "from": (window.begin - zero) / 1000,
        "to": (window.end - zero) / 1000,
        "about": _about(drawn, window, zero),
        "alt": f"Gantt chart of {format_count(window.nodes, 'node')}: the bars are jobs, "
        f"as tall as the {NOUNS[first.unit]} that they hold.",
        "noun": NOUNS[first.unit][:-1],
        "nodes": list(first.nodes[: window.nodes]),
        "lanes": [max(1, int(length)) for length in first.by_node[: window.nodes]],
        "queues": queues,
        "jobs": [_job(first, job, queues, zero) for job in jobs],
        "bars": bars,
    }


def _window(outcomes: list[Outcome]) -> TimeWindow:
    """Returns the whole time if its bars fit; else a window around the longest queue, halved until they fit."""
    begin = min(int(outcome.submit[0]) for outcome in outcomes)
    end = max(int(outcome.end.max()) for outcome in outcomes if len(outcome.end))
    nodes = min(MAX_NODES, len(outcomes[0].nodes))
    window, width, least = TimeWindow(begin, end, nodes), end - begin, (end - begin) // _PARTS
    centre = _busiest(outcomes[0], begin, end)
    while width > least and any(len(window.seats(outcome)) > MAX_BARS for outcome in outcomes):
        width //= 2
        low = max(begin, min(centre - width // 2, end - width))
        window = TimeWindow(low, low + width, nodes)
    return window


def _busiest(outcome: Outcome, begin: int, end: int) -> int:
    edges = interval_edges(begin, end)
    place = int(np.argmax(timeline.interval_means(timeline.wanted_amount(outcome), edges)))
    return int(edges[place] + edges[place + 1]) // 2


def _bars(outcome: Outcome, window: TimeWindow, zero: int, jobs: dict[int, int]) -> list[float]:
    """Returns a flat list: job, node, first lane, lanes, begin, end. `jobs` numbers jobs across all policies."""
    seats = window.seats(outcome)
    run = np.searchsorted(outcome.seats, seats, side="right") - 1
    lanes = {row: Lanes(int(outcome.by_node[row])) for row in np.unique(outcome.row[seats]).tolist()}
    held: dict[int, list[Piece]] = {}
    flat: list[float] = []
    changes = np.concatenate((outcome.begin[run], outcome.end[run]))
    starts = np.concatenate((np.ones(len(seats)), np.zeros(len(seats))))
    for number in np.lexsort((starts, changes)).tolist():
        place = number % len(seats)
        row = int(outcome.row[seats[place]])
        if number >= len(seats):
            lanes[row].give(held.pop(place, []))
            continue
        pieces = held[place] = lanes[row].take(int(outcome.amount[seats[place]]))
        one = int(run[place])
        job = jobs.setdefault(int(outcome.job[one]), len(jobs))
        begin, end = (int(at[one]) - zero for at in (outcome.begin, outcome.end))
        for low, high in pieces:
            flat += (job, row, low, high - low, begin / 1000, end / 1000)
    return flat


def _job(outcome: Outcome, number: int, queues: list[str], zero: int) -> dict[str, Any]:
    job = outcome.trace.jobs[number]
    return {
        "id": job.id,
        "units": requested_units(job, outcome.unit) / 1000,
        "user": job.user,
        "queue": queues.index(job.queue),
        "submit": (job.submit - zero) / 1000,
    }


def _about(drawn: Mapping[str, Outcome], window: TimeWindow, zero: int) -> str:
    first = next(iter(drawn.values()))
    length, begin = (window.end - window.begin) / 1000, (window.begin - zero) / 1000
    whole = window.end >= max(int(outcome.end.max()) for outcome in drawn.values()) and begin <= 0
    when = (
        "the whole time"
        if whole
        else f"{format_duration(length)} around the longest queue, from {format_duration(begin)} on"
    )
    nodes = (
        "every node" if window.nodes == len(first.nodes) else f"the first {window.nodes} of {len(first.nodes)} nodes"
    )
    return f"One row a node, one bar a job; {when}, {nodes}."
