"""Builds TrainingJob manifests from short-form jobs, with new names, one for each member of an array. Pure."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from windlass.core.model.job import Job
from windlass.jobs.description.dependency_resolution import ResolveName, resolve_dependencies
from windlass.jobs.description.submission import Submission, array_members
from windlass.jobs.errors import input_error
from windlass.jobs.kubernetes.kinds.registry import read
from windlass.jobs.kubernetes.manifest_reader import Fault
from windlass.jobs.kubernetes.manifests.trainingjob_manifest import training_job
from windlass.jobs.kubernetes.parsed_job import ParsedJob
from windlass.jobs.kubernetes.pods.network_pods import UNDECIDED

Manifest = dict[str, Any]
DrawSuffix = Callable[[], str]
"""Returns a random suffix."""
_MAX_NAME_CHARS = 40
"""Length of the job name in an object name; pod names add a role and a number to it."""


@dataclass(frozen=True, slots=True)
class TrainingJobs:
    """Manifests, warnings, and a name for each submission, of its object or of its array."""

    manifests: list[Manifest]
    warnings: list[str]
    names: list[str]


def build_training_jobs(
    submissions: Sequence[Submission], namespace: str, draw: DrawSuffix, known: ResolveName
) -> TrainingJobs:
    """Returns the TrainingJobs of submissions. Raises InputError for an invalid one."""
    made = TrainingJobs([], [], [])
    here: dict[str, list[str]] = {}
    for submission in submissions:
        name = f"{submission.job.name[:_MAX_NAME_CHARS].rstrip('-')}-{draw()}"
        find = partial(_ids_of, here, known)
        named = [(each, _with_ids(job, find)) for each, job in _members(submission, name)]
        for object_name, job in named:
            manifest = training_job(job, object_name, namespace)
            warnings = _read(manifest, submission).warnings
            decided_there = [each for each in warnings if each.startswith(UNDECIDED)]  # the operator sees the nodes
            made.warnings.extend(f"{submission.job.name}: {each}" for each in warnings if each not in decided_there)
            made.manifests.append(manifest)
        here[submission.job.name] = [object_name for object_name, _ in named]
        made.names.append(name)
    return made


def _members(submission: Submission, name: str) -> list[tuple[str, Job]]:
    """Returns the name and the job of the object, or those of each member of an array."""
    of_array = array_members(submission, name)
    return [(job_id.replace("_", "-"), job) for job_id, job in of_array] or [(name, submission.job)]


def _ids_of(here: Mapping[str, Sequence[str]], known: ResolveName, name: str) -> Sequence[str]:
    return here[name] if name in here else known(name)


def _with_ids(job: Job, find: ResolveName) -> Job:
    def find_earlier(name: str) -> Sequence[str]:
        problem = f"after: earlier:{name} needs a daemon; on a cluster write the jobs to wait for, as any:NAME"
        raise input_error(job.name, problem)

    try:
        return replace(job, after=resolve_dependencies(job, find, find_earlier))
    except ValueError as error:
        raise input_error(job.name, f"after: {error}") from None


def _read(manifest: Manifest, submission: Submission) -> ParsedJob:
    parsed = read(manifest)
    if isinstance(parsed, Fault):
        path = parsed.path[1:] if parsed.path[:1] == ("spec",) else parsed.path
        raise input_error(submission.source, str(Fault(path, parsed.message)) if path else parsed.message)
    return parsed
