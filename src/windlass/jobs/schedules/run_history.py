"""Selects the ended runs of a schedule that its history limits remove."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from windlass.jobs.schedules.schedule import Schedule


@dataclass(frozen=True, slots=True)
class EndedRun:
    """A run that has ended. `order`: larger for later runs."""

    name: str
    order: int
    succeeded: bool


def select_surplus(schedule: Schedule, runs: Iterable[EndedRun]) -> list[str]:
    """Names of runs beyond the limits, oldest first: successes and failures are limited separately."""
    latest_first = sorted(runs, key=lambda run: -run.order)
    succeeded = [run for run in latest_first if run.succeeded]
    failed = [run for run in latest_first if not run.succeeded]
    surplus = succeeded[schedule.kept_succeeded :] + failed[schedule.kept_failed :]
    return [run.name for run in sorted(surplus, key=lambda run: run.order)]
