"""The job of an imported file: fields of a job file, and what the imported file has that the job has not."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from windlass.jobs.imports.outcomes import Loss, Outcome


@dataclass(frozen=True, slots=True)
class ImportedJob:
    """Fields of a job file, and what the imported file has that the job has not."""

    fields: Mapping[str, Any]
    losses: tuple[Loss, ...]


def imported_job(fields: Mapping[str, Any], losses: Iterable[Loss]) -> ImportedJob:
    """The job with its losses in the order of their lines, each once."""
    return ImportedJob(fields, tuple(sorted(dict.fromkeys(losses), key=lambda each: each.place.line)))


def collect(outcomes: Iterable[Outcome], fields: dict[str, Any], losses: list[Loss]) -> None:
    """Adds settings to the fields and losses to the losses; mappings are merged."""
    for each in outcomes:
        if isinstance(each, Loss):
            losses.append(each)
        elif isinstance(each.value, dict):
            fields[each.field] = {**fields.get(each.field, {}), **each.value}
        else:
            fields[each.field] = each.value


def with_queue(job: ImportedJob, queue: str) -> ImportedJob:
    """The job in another queue than that of its file."""
    losses = tuple(each for each in job.losses if each.part != "--partition")
    return ImportedJob({**job.fields, "queue": queue}, losses)
