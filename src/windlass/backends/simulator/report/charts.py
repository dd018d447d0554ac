"""Chart series as plain data for the page's script. Times in seconds since the first submission."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from windlass.backends.simulator.metrics import GroupMetrics
from windlass.backends.simulator.outcome import NEVER, Outcome
from windlass.backends.simulator.report import timeline
from windlass.backends.simulator.report.experiment import PolicyRun
from windlass.backends.simulator.report.number_format import format_duration, format_figure, join_names

Chart: TypeAlias = dict[str, Any]
Drawn: TypeAlias = Mapping[str, Outcome]
"""The outcome of the first seed, by policy."""

INTERVALS = 320
"""Number of points of a line over time."""
_MARKS = 240
"""Number of points of a distribution."""
MAX_QUEUES = 16
NOUNS = {"gpu": "GPUs", "cpu": "cores"}


def charts(runs: Sequence[PolicyRun], drawn: Drawn) -> list[Chart]:
    """Returns every chart of the page, in order."""
    return [*_over_time(drawn), _completion(drawn), _by_size(runs, drawn), _by_queue(runs, drawn)]


# --- over time --------------------------------------------------------------------------------------


def _over_time(drawn: Drawn) -> list[Chart]:
    begin = min(int(outcome.submit[0]) for outcome in drawn.values())
    ends = {policy: int(outcome.end.max()) for policy, outcome in drawn.items()}
    edges = interval_edges(begin, max(ends.values()))
    seconds = [_rounded(middle / 1000, 1) for middle in (edges[1:] + edges[:-1]) / 2 - begin]
    noun = NOUNS[next(iter(drawn.values())).unit]

    def lines(value: Callable[[Outcome], NDArray[np.float64]]) -> list[list[float | None]]:
        """Returns a line for each policy, which ends with the policy's last job."""
        found = []
        for policy, outcome in drawn.items():
            there = edges[:-1] < ends[policy]
            found.append([_rounded(y, 4) if on else None for y, on in zip(value(outcome), there, strict=True)])
        return found

    used = lines(lambda outcome: timeline.interval_means(timeline.held_amount(outcome), edges) / outcome.capacity)
    requested = lines(lambda outcome: timeline.interval_means(timeline.wanted_amount(outcome), edges) / 1000)
    lost = lines(lambda outcome: timeline.unusable_share(outcome, edges))
    time = {"kind": "time", "x_title": "Time since the first submission", "x": seconds}
    return [
        {
            "id": "utilisation",
            "title": "Utilisation over time",
            "about": f"Share of all {noun} that are held, averaged over {format_duration(_point_s(edges))} a point.",
            "alt": _means("Line chart: share of the cluster held", used, drawn, "share"),
            "views": [{"name": "held", "unit": "share", "series": used}],
            **time,
        },
        {
            "id": "waiting",
            "title": "Demand that waits",
            "about": f"{noun} that waiting jobs request in total.",
            "alt": _means(f"Line chart: {noun} requested by waiting jobs", requested, drawn, "count"),
            "views": [{"name": "requested", "unit": "gpus" if noun == "GPUs" else "count", "series": requested}],
            **time,
        },
        {
            "id": "fragmentation",
            "title": "Fragmentation over time",
            "about": f"Of the free {noun}, the share on nodes with too few free for the next job, "
            "that job being any of the trace.",
            "alt": _means("Line chart: share of free capacity too small to use", lost, drawn, "share"),
            "views": [{"name": "too small", "unit": "share", "series": lost}],
            **time,
        },
    ]


def interval_edges(begin: int, end: int) -> timeline.Times:
    """Returns the edges of INTERVALS equal, non-empty intervals from `begin` to `end`, in ms."""
    edges: timeline.Times = np.linspace(begin, max(end, begin + INTERVALS), INTERVALS + 1).astype(np.int64)
    return edges


def _point_s(edges: timeline.Times) -> float:
    return float(edges[-1] - edges[0]) / 1000 / INTERVALS


def _means(text: str, series: Sequence[Sequence[float | None]], drawn: Drawn, unit: Any) -> str:
    """Describes the chart in a sentence, for screen readers."""
    known = [[value for value in line if value is not None] for line in series]
    words = [
        f"{format_figure(sum(line) / max(1, len(line)), unit)} under {policy}"
        for policy, line in zip(drawn, known, strict=True)
    ]
    return f"{text}; on average {join_names(words)}."


# --- distributions ----------------------------------------------------------------------------------


def _completion(drawn: Drawn) -> Chart:
    times = {policy: np.sort(_jct(outcome)) / 1000 for policy, outcome in drawn.items()}
    low, high = _range(np.concatenate(list(times.values())))
    marks = np.geomspace(low, high, _MARKS)
    series = [
        [_rounded(share, 4) for share in np.searchsorted(jct, marks, side="right") / max(1, len(jct))]
        for jct in times.values()
    ]
    halves = [
        f"{format_duration(float(jct[len(jct) // 2]))} under {policy}" for policy, jct in times.items() if len(jct)
    ]
    return {
        "id": "jct",
        "kind": "cdf",
        "title": "Completion times",
        "about": "Share of the jobs that are over within a time of their submission. Further left is better.",
        "alt": f"Distribution of completion times; half of the jobs are over within {join_names(halves)}.",
        "x_title": "Completion time",
        "x": [float(f"{mark:.4g}") for mark in marks],
        "views": [{"name": "share of jobs", "unit": "share", "series": series}],
    }


def _jct(outcome: Outcome) -> NDArray[np.int64]:
    jct: NDArray[np.int64] = (outcome.last_end - outcome.submit)[outcome.first_begin != NEVER]
    return jct


def _range(values: NDArray[np.float64]) -> tuple[float, float]:
    """Returns the range of a logarithmic axis: from one second, unless all values are shorter."""
    high = max(0.01, float(values.max(initial=0.01)))
    least = float(values[values > 0].min(initial=high))
    return min(max(least, 1.0), high / 10), high * 1.02


# --- by class ---------------------------------------------------------------------------------------


def _by_size(runs: Sequence[PolicyRun], drawn: Drawn) -> Chart:
    noun = NOUNS[next(iter(drawn.values())).unit]
    sizes = _names(run.metrics.by_size for run in runs)
    views = [
        _view(name, "s", sizes, runs, drawn, lambda run: run.metrics.by_size, value)
        for name, value in (
            ("average", lambda group: group.wait.avg / 1000),
            ("median", lambda group: group.wait.p50 / 1000),
            ("99th percentile", lambda group: group.wait.p99 / 1000),
        )
    ]
    return {
        "id": "wait",
        "kind": "bars",
        "title": "Wait by size",
        "about": f"Wait of jobs by the {noun} that they request; waits below a second are not drawn.",
        "alt": _ends("Bar chart: average wait", sizes, views[0]["series"], drawn, "s"),
        "x_title": noun,
        "categories": sizes,
        "views": views,
    }


def _by_queue(runs: Sequence[PolicyRun], drawn: Drawn) -> Chart:
    noun = NOUNS[next(iter(drawn.values())).unit]
    queues = _largest_queues(runs)
    total = {id(run): sum(group.held for group in run.metrics.by_queue.values()) or 1.0 for run in runs}
    by_queue = lambda run: run.metrics.by_queue  # noqa: E731 - one expression, three times the same
    views = [
        _view("slowdown", "ratio", queues, runs, drawn, by_queue, lambda group: group.slowdown.avg),
        _view("wait", "s", queues, runs, drawn, by_queue, lambda group: group.wait.avg / 1000),
        {
            "name": f"share of {noun[:-1]} time",
            "unit": "share",
            "log": False,
            "series": [
                [
                    _average(
                        run.metrics.by_queue[queue].held / total[id(run)]
                        for run in _of(runs, policy)
                        if queue in run.metrics.by_queue
                    )
                    for queue in queues
                ]
                for policy in drawn
            ],
        },
    ]
    more = f" The {MAX_QUEUES} largest queues." if len(queues) == MAX_QUEUES else ""
    return {
        "id": "fairness",
        "kind": "bars",
        "title": "Fairness by queue",
        "about": f"Average bounded slowdown, average wait and {noun[:-1]} time of each queue's jobs: "
        f"equal values are fair.{more}",
        "alt": _ends("Bar chart: average bounded slowdown", queues, views[0]["series"], drawn, "ratio"),
        "x_title": "Queue",
        "categories": queues,
        "views": views,
    }


def _view(
    name: str,
    unit: str,
    names: Sequence[str],
    runs: Sequence[PolicyRun],
    drawn: Drawn,
    groups: Callable[[PolicyRun], Mapping[str, GroupMetrics]],
    value: Callable[[GroupMetrics], float],
) -> dict[str, Any]:
    """Returns one number for each class, the mean over the seeds that have the class."""
    series = [
        [_average(value(groups(run)[name]) for run in _of(runs, policy) if name in groups(run)) for name in names]
        for policy in drawn
    ]
    return {"name": name, "unit": unit, "log": True, "series": series}


def _average(values: Iterable[float]) -> float | None:
    found = list(values)
    return _rounded(sum(found) / len(found), 4) if found else None


def _of(runs: Sequence[PolicyRun], policy: str) -> list[PolicyRun]:
    return [run for run in runs if run.policy == policy]


def _names(groups: Iterable[Mapping[str, GroupMetrics]]) -> list[str]:
    """Returns the classes of all runs, from small to large as in the metrics."""
    found = {name: None for mapping in groups for name in mapping}
    return sorted(found, key=lambda name: float(name.split("–")[0].rstrip("+")) if name[0].isdigit() else -1.0)


def _largest_queues(runs: Sequence[PolicyRun]) -> list[str]:
    held: dict[str, float] = {}
    for run in runs:
        for name, group in run.metrics.by_queue.items():
            held[name] = held.get(name, 0.0) + group.held
    return sorted(sorted(held, key=lambda name: (-held[name], name))[:MAX_QUEUES])


def _ends(text: str, names: Sequence[str], series: Sequence[Sequence[float | None]], drawn: Drawn, unit: Any) -> str:
    """Describes the first and the last class in a sentence."""
    sentences = []
    for policy, line in zip(drawn, series, strict=True):
        known = [(name, value) for name, value in zip(names, line, strict=True) if value is not None]
        if known:
            ends = [known[0], known[-1]] if len(known) > 1 else known
            sentences.append(
                f"{policy} " + " and ".join(f"{format_figure(value, unit)} ({name})" for name, value in ends)
            )
    return f"{text}, first and last class: {'; '.join(sentences)}."


def _rounded(value: float, digits: int) -> float | None:
    """Rounds to the digits that are drawn, which keeps the page small; NaN becomes None, since JSON has no NaN."""
    if not np.isfinite(value):
        return None
    rounded = float(f"{value:.{digits + 2}g}") if abs(value) >= 1 else round(float(value), digits)
    return int(rounded) if rounded == int(rounded) else rounded
