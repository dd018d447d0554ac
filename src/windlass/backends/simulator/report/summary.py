"""The text at the top of the page: the simulation, and its main results."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from windlass.backends.simulator.outcome import Outcome
from windlass.backends.simulator.report.charts import NOUNS
from windlass.backends.simulator.report.experiment import Experiment, PolicyRun
from windlass.backends.simulator.report.figures import FIGURES, mean_and_sd
from windlass.backends.simulator.report.number_format import format_count, format_duration, join_names


def heading(experiment: Experiment) -> str:
    """Names the traces and the cluster."""
    names = [source.name for source in experiment.sources]
    traces = join_names(names) if len(names) < 4 else format_count(len(names), "trace")
    return f"{traces} on {experiment.cluster}"


def summary(experiment: Experiment, runs: Sequence[PolicyRun], drawn: Mapping[str, Outcome]) -> list[str]:
    """Returns two or three paragraphs."""
    return [
        " ".join((_description(experiment, runs, drawn), *experiment.conditions)),
        *filter(None, (_best(runs, list(drawn)), _left_out(runs))),
    ]


def _description(experiment: Experiment, runs: Sequence[PolicyRun], drawn: Mapping[str, Outcome]) -> str:
    first, metrics = next(iter(drawn.values())), runs[0].metrics
    noun = NOUNS[first.unit][:-1]
    policies = format_count(len(experiment.policies), "policy", "policies")
    jobs = metrics.everything.jobs
    work = f"{metrics.everything.held:,.0f} {noun}-hours of work"
    seeds = "; nothing in it is random, so each has one run"
    if experiment.random:
        count = len(experiment.seeds)
        each = f"each under {count} seeds" if count > 1 else f"under seed {experiment.seeds[0]}"
        seeds = f", {each} ({experiment.random})"
    load = f"Their work is {metrics.offered_load * 100:.0f} % of the cluster's capacity while they arrive."
    return (
        f"{format_count(jobs, 'job')} with {work} were replayed on {experiment.cluster} "
        f"under {policies}: {join_names(list(experiment.policies))}{seeds}."
        + (f" {load}" if metrics.offered_load else "")
    )


def _best(runs: Sequence[PolicyRun], policies: Sequence[str]) -> str:
    """Names the policy with the shortest waits, and its margin over the next."""
    if len(policies) < 2:
        return ""
    wait = next(figure for figure in FIGURES if figure.key == "wait_avg")
    means = {
        policy: mean_and_sd([wait.value(run.metrics) for run in runs if run.policy == policy])[0] for policy in policies
    }
    order = sorted(policies, key=lambda policy: means[policy])
    best, last = order[0], order[-1]
    if means[last] <= 0:
        return "No job had to wait under any of them."
    saved = 1 - means[best] / means[last]
    return (
        f"Jobs wait least under {best}: {format_duration(means[best])} on average, "
        f"{saved * 100:.0f} % less than under {last} ({format_duration(means[last])})."
    )


def _left_out(runs: Sequence[PolicyRun]) -> str:
    causes = runs[0].metrics.left_out
    counts = [f"{count:,} × {cause}" for cause, count in causes.items() if count]
    return f"Left out of the traces: {join_names(counts)}." if counts else ""
