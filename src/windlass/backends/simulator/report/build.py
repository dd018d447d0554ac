"""Builds the report as plain data: the content of report.json, which the page draws."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, fields
from typing import Any, TypeAlias

import numpy as np

from windlass.backends.simulator.metrics import GroupMetrics, Metrics
from windlass.backends.simulator.outcome import Outcome
from windlass.backends.simulator.report.charts import charts
from windlass.backends.simulator.report.experiment import Experiment, PolicyRun
from windlass.backends.simulator.report.figures import FIGURES, Figure, mean_and_sd
from windlass.backends.simulator.report.gantt import gantt
from windlass.backends.simulator.report.summary import heading, summary
from windlass.core.model.policy import Policy
from windlass.core.queues.orders.registry import ORDERS

Report: TypeAlias = dict[str, Any]
FORMAT = 1


def build(experiment: Experiment, runs: Sequence[PolicyRun]) -> Report:
    """Builds the report. Runs of the first seed must have outcomes. Times in seconds unless a name ends in _ms."""
    drawn = {run.policy: run.outcome for run in runs if run.outcome is not None}
    return {
        "format": FORMAT,
        "heading": heading(experiment),
        "summary": summary(experiment, runs, drawn),
        "command": experiment.command,
        "sources": [asdict(source) for source in experiment.sources],
        "cluster": experiment.cluster,
        "conditions": list(experiment.conditions),
        "random": experiment.random,
        "seeds": list(experiment.seeds),
        "policies": [_policy(name, policy) for name, policy in experiment.policies.items()],
        "figures": [_figure(figure, runs, list(drawn)) for figure in FIGURES if _is_defined(figure, runs)],
        "charts": charts(runs, drawn),
        "gantt": gantt(drawn),
        "runs": [{"policy": run.policy, "seed": run.seed, **_metrics(run.metrics)} for run in runs],
        "jobs": _jobs(drawn),
    }


def _policy(name: str, policy: Policy) -> dict[str, Any]:
    values = {each.name: getattr(policy, each.name) for each in fields(policy)}
    settings = {key: list(value) if isinstance(value, tuple) else value for key, value in values.items()}
    return {"name": name, "about": ORDERS[policy.order].description, **settings}


def _is_defined(figure: Figure, runs: Sequence[PolicyRun]) -> bool:
    return not figure.zero_is_undefined or any(figure.value(run.metrics) for run in runs)


def _figure(figure: Figure, runs: Sequence[PolicyRun], policies: list[str]) -> dict[str, Any]:
    spreads = [mean_and_sd([figure.value(run.metrics) for run in runs if run.policy == policy]) for policy in policies]
    return {
        "key": figure.key,
        "title": figure.title,
        "about": figure.about,
        "unit": figure.unit,
        "better": figure.better,
        "mean": [_exact(mean) for mean, _ in spreads],
        "sd": [_exact(sd) for _, sd in spreads],
    }


def _metrics(metrics: Metrics) -> dict[str, Any]:
    """Returns every number of one run by its field name."""
    groups: Mapping[str, Mapping[str, GroupMetrics]] = {"by_queue": metrics.by_queue, "by_size": metrics.by_size}
    plain = {each.name: getattr(metrics, each.name) for each in fields(metrics)}
    return {
        **{figure.key: _exact(figure.value(metrics)) for figure in FIGURES},
        **{f"{name}_ms": {key: asdict(group) for key, group in found.items()} for name, found in groups.items()},
        "jobs": metrics.everything.jobs,
        "left_out": dict(plain["left_out"]),
    }


def _jobs(drawn: Mapping[str, Outcome]) -> dict[str, Any]:
    """Returns all jobs by column; results of the first seed under each policy's name. -1: the job never ran."""
    first = next(iter(drawn.values()))
    jobs = first.trace.jobs
    return {
        "id": [job.id for job in jobs],
        "queue": [job.queue for job in jobs],
        "user": [job.user for job in jobs],
        "submit_ms": first.submit.tolist(),
        "run_time_ms": [job.duration for job in jobs],
        "milli_units": _held_amounts(first).tolist(),
        "unit": first.unit,
        "policies": {
            policy: {
                "first_begin_ms": outcome.first_begin.tolist(),
                "last_end_ms": outcome.last_end.tolist(),
                "runs": outcome.runs.tolist(),
            }
            for policy, outcome in drawn.items()
        },
    }


def _held_amounts(outcome: Outcome) -> np.ndarray[Any, np.dtype[np.int64]]:
    """Returns the amount that each job held in its first run; 0 for jobs that never ran."""
    amounts = np.zeros(len(outcome.trace.jobs), dtype=np.int64)
    amounts[outcome.job] = outcome.held_units
    return amounts


def _exact(value: float) -> float:
    """Rounds to twelve digits, so that machines with different floating-point sums print the same number."""
    return float(f"{value:.12g}")
