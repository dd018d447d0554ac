"""Dependencies of `sbatch` on jobs of the controller: numbers become ids, and an unknown job is an error."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from windlass.cli.errors import UsageError
from windlass.jobs.slurm.batch_script import SbatchOption
from windlass.jobs.slurm.sbatch_options import full_name
from windlass.jobs.syntax.names import JOB_REFERENCE, is_name

_OPTION = "--dependency"
_NUMBER = re.compile(r"([0-9]{1,12})(?:_([0-9]{1,6}))?")
_KINDS = ("afterok", "afterany", "afternotok", "after", "aftercorr")
"""Conditions that a job has; the import names the others."""


def with_job_ids(
    options: Sequence[SbatchOption], jobs: Callable[[], Iterable[Mapping[str, Any]]]
) -> tuple[SbatchOption, ...]:
    """The last dependency of options with ids in the place of numbers; () if none has a number.

    `jobs`: rows with id, number, array and index, read only if they are needed. Raises UsageError for an unknown job.
    """
    option = next((each for each in reversed(options) if full_name(each.name) == _OPTION and not each.ignored), None)
    if option is None:
        return ()
    words = [word for part in re.split("[,?]", option.value) for word in _jobs_of(part)]
    wrong = [word for word in words if not _NUMBER.fullmatch(word) and not is_name(JOB_REFERENCE, word)]
    if wrong:
        raise _unknown(wrong[0])
    numbers = [word for word in words if _NUMBER.fullmatch(word)]
    ids = _ids(jobs()) if numbers else {}
    for word in numbers:
        if word not in ids:
            raise _unknown(word)
    value = re.sub(r"(?<=:)[0-9_]+(?=[:,?+]|$)", lambda found: ids.get(found[0], found[0]), option.value)
    return (replace(option, name=_OPTION, value=value),) if numbers else ()


def _jobs_of(part: str) -> list[str]:
    """The jobs of one condition."""
    kind, *jobs = part.split(":")
    jobs = [job.partition("+")[0] for job in jobs]
    return jobs if kind in _KINDS else []


def _ids(rows: Iterable[Mapping[str, Any]]) -> dict[str, str]:
    """Number → id of a job, or of an array; number and index → id of its member."""
    found: dict[str, str] = {}
    for row in rows:
        found[str(row["number"])] = row["array"] or row["id"]
        if row["array"]:
            found[f"{row['number']}_{row['index']}"] = row["id"]
    return found


def _unknown(word: str) -> UsageError:
    problem = f"Batch job submission failed: Job dependency problem: there is no job {word[:60]}"
    return UsageError(f"sbatch: {problem}\nwindlass squeue lists jobs, windlass sacct also ended ones")
