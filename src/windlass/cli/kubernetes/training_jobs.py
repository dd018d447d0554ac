"""Short jobs as the objects to be made of them: named anew, an object for each member of an array. Pure."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from windlass.core.model.job import Dependency, Job
from windlass.jobs.description.submission import Submission, members
from windlass.jobs.errors import job_error
from windlass.jobs.kubernetes.kinds.registry import read
from windlass.jobs.kubernetes.manifest_reader import Fault
from windlass.jobs.kubernetes.manifests.trainingjob_manifest import training_job
from windlass.jobs.kubernetes.parsed_job import ParsedJob

Manifest = dict[str, Any]
DrawSuffix = Callable[[], str]
"""A suffix that nobody has drawn before."""
ResolveName = Callable[[str], Sequence[str]]
"""The objects that a name means; raises what is to be told of one that means nothing."""
_LONGEST = 40
"""Characters of a job's name that its object's begins with: pods' names have a role and a number besides."""


@dataclass(frozen=True, slots=True)
class TrainingJobs:
    """`ids`: one for each submission, an array's own for an array; names of objects, or of arrays."""

    manifests: list[Manifest]
    warnings: list[str]
    names: list[str]


def build_training_jobs(
    submissions: Sequence[Submission], namespace: str, draw: DrawSuffix, known: ResolveName
) -> TrainingJobs:
    """The TrainingJobs to make. Raises JobError if one of them cannot be."""
    made = TrainingJobs([], [], [])
    here: dict[str, list[str]] = {}
    for submission in submissions:
        name = f"{submission.job.name[:_LONGEST].rstrip('-')}-{draw()}"
        after = _after(submission.job, lambda text: here[text] if text in here else known(text))
        named = _members(replace(submission, job=replace(submission.job, after=after)), name)
        for object_name, job in named:
            manifest = training_job(job, object_name, namespace)
            made.warnings.extend(f"{submission.job.name}: {each}" for each in _read(manifest, submission).warnings)
            made.manifests.append(manifest)
        here[submission.job.name] = [object_name for object_name, _ in named]
        made.names.append(name)
    return made


def _members(submission: Submission, name: str) -> list[tuple[str, Job]]:
    """The object's name and job, or those of an array's members."""
    of_array = members(submission, name)
    return [(job_id.replace("_", "-"), job) for job_id, job in of_array] or [(name, submission.job)]


def _after(job: Job, meant: ResolveName) -> tuple[Dependency, ...]:
    waits = [Dependency(name, wanted.condition) for wanted in job.after for name in meant(wanted.job_id)]
    return tuple(dict.fromkeys(waits))


def _read(manifest: Manifest, submission: Submission) -> ParsedJob:
    parsed = read(manifest)
    if isinstance(parsed, Fault):
        path = parsed.path[1:] if parsed.path[:1] == ("spec",) else parsed.path
        raise job_error(submission.source, str(Fault(path, parsed.message)) if path else parsed.message)
    return parsed
