"""Submission of a job that a program describes: a command, fields, a file, or a call of a function."""

from __future__ import annotations

import json
import os
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias, cast

from windlass.cli.current_user import current_user
from windlass.cli.job_submission import (
    check_program,
    current_folder,
    for_this_machine,
    image_command,
    local_command,
    submission_context,
)
from windlass.client.call_fields import fields_of_call, with_launcher_of_function
from windlass.client.connection import TargetConnection
from windlass.client.errors import InvalidRequestError, WindlassWarning
from windlass.client.job_fields import JobFields
from windlass.client.job_function import BoundCall, JobFunction
from windlass.jobs.description.job_file import loads
from windlass.jobs.description.options import RunOptions
from windlass.jobs.description.submission import Submission
from windlass.jobs.kubernetes.manifests.manifest_file import holds_manifests
from windlass.jobs.syntax.text import read_text
from windlass.jobs.syntax.yaml_tree import compose, plain

if TYPE_CHECKING:
    from windlass.cli.kubernetes.client import ClusterClient
    from windlass.cli.kubernetes.submission import SubmitObjects

JobSource: TypeAlias = "str | PathLike[str] | Sequence[str] | Mapping[str, Any] | BoundCall[Any]"
"""A command (a line, or words), a job file (a path that ends in .yaml or .yml), fields, or a call of a function."""
_JOB_FILES = (".yaml", ".yml")
_SOURCE = "job"
"""Name of the described job in errors."""


@dataclass(frozen=True, slots=True)
class DescribedJobs:
    """The jobs of a source. `base`: their default working folder. `ship`: the folder of their code on a cluster."""

    jobs: list[Submission]
    base: str
    ship: str


def submit_one(connection: TargetConnection, job: JobSource, ship: str, fields: JobFields) -> str:
    """Submits the one job of a source. Returns its id. Raises InvalidRequestError if the source holds several."""
    return submit_jobs(connection, job, ship, fields, only_one=True)[0]


def submit_jobs(
    connection: TargetConnection, job: JobSource, ship: str, fields: JobFields, *, only_one: bool = False
) -> list[str]:
    """Submits the jobs of a source, all or none. Returns their ids."""
    file = file_of(job)
    if file and connection.is_cluster and holds_manifests(read_text(file)):
        return _submit_manifests(connection.cluster(), file, ship, fields, only_one=only_one)
    described = read_described(connection, job, ship, fields)
    check_number(len(described.jobs), file, only_one=only_one)
    _refuse_schedules(described.jobs)
    if connection.is_cluster:
        return _submit_to_cluster(connection.cluster(), described)
    if connection.is_slurm:
        return _submit_to_slurm(connection, described.jobs)
    return submit_here(connection, described.jobs)


def read_described(connection: TargetConnection, job: JobSource, ship: str, fields: Mapping[str, Any]) -> DescribedJobs:
    """Returns the jobs of a source other than manifests. Raises InvalidRequestError, InputError, UsageError."""
    if isinstance(job, BoundCall):
        return _read_call(connection, job, fields)
    _check_source(job)
    if ship and not connection.is_cluster:
        raise InvalidRequestError("code is shipped to Kubernetes only", "remove ship, or name a cluster as the target")
    file = file_of(job)
    base = str(Path(file).absolute().parent) if file else current_folder()
    text = _described_file(file, fields) if file else _described(job, fields, in_cluster=connection.is_cluster)
    return DescribedJobs(loads(text, source=file or _SOURCE, base=base, user=current_user()), base, ship)


def _check_source(job: object) -> None:
    """Raises InvalidRequestError for what describes no job."""
    if isinstance(job, (str, PathLike, Mapping, Sequence)):
        return
    if isinstance(job, JobFunction):
        name = job.function.__name__
        raise InvalidRequestError(f"{name} is a function without arguments", f"submit a call: {name}.bind(…)")
    if callable(job):
        name = getattr(job, "__name__", "it")
        raise InvalidRequestError(
            f"{name} is no job", "decorate the function with @windlass.job, and submit a call of it"
        )
    fix = "submit a command, the path of a job file, a mapping of fields, or a call of a function"
    raise InvalidRequestError(f"a {type(job).__name__} describes no job", fix)


def _read_call(connection: TargetConnection, call: BoundCall[Any], fields: Mapping[str, Any]) -> DescribedJobs:
    """Returns the job of a call of a function."""
    if connection.is_slurm:
        raise InvalidRequestError("functions do not run on Slurm", "submit a command or a job file")
    described = fields_of_call(call, fields, in_cluster=connection.is_cluster)
    base = described.source.folder or current_folder()
    read = loads(_as_text(described.fields), source=_SOURCE, base=base, user=current_user())
    if connection.is_cluster:
        return DescribedJobs(read, base, described.ship)
    return DescribedJobs([with_launcher_of_function(each, described.source) for each in read], base, "")


def submit_here(connection: TargetConnection, read: Sequence[Submission]) -> list[str]:
    """Submits jobs to the daemon of this machine, which outlives this process."""
    context = submission_context()
    return connection.controller().submit(for_this_machine(read, warn_of), **context)


def _submit_to_slurm(connection: TargetConnection, read: Sequence[Submission]) -> list[str]:
    """Submits jobs by sbatch; warns of fields that have no effect on Slurm."""
    from windlass.backends.slurm.submission import losses_of  # noqa: PLC0415 - rarely needed

    for each in read:
        for loss in losses_of(each):
            warn_of(f"{each.job.name}: {loss}")
    return connection.slurm().submit(read, **submission_context())


def _submit_to_cluster(cluster: ClusterClient, described: DescribedJobs) -> list[str]:
    """Creates the objects of short-form jobs and of their code."""
    from windlass.cli.kubernetes.submission import objects_of_jobs, ship_code  # noqa: PLC0415 - loads a cluster's libraries

    jobs, code = ship_code(described.jobs, described.ship, Path(described.base))
    return _create(cluster, objects_of_jobs(jobs, code, cluster.finder))


def _submit_manifests(cluster: ClusterClient, file: str, ship: str, fields: JobFields, *, only_one: bool) -> list[str]:
    """Creates the objects of a file of manifests, unchanged."""
    from windlass.cli.kubernetes.submission import SubmitRequest, build_objects  # noqa: PLC0415 - as above

    if fields or ship:
        raise InvalidRequestError(f"{file} holds manifests, which take no other fields", "name only the file")
    objects = build_objects(SubmitRequest(RunOptions(), [], file, lint=True), cluster.finder)
    check_number(len(objects.manifests), file, only_one=only_one)
    return _create(cluster, objects)


def _refuse_schedules(read: Sequence[Submission]) -> None:
    """Raises InvalidRequestError for a job with a schedule, which has no id of one run."""
    for each in read:
        if each.schedule is not None:
            fix = "leave out cron, or create a schedule: create_schedule"
            raise InvalidRequestError(f"{each.job.name} has a schedule (cron), and this submits one run", fix)


def check_number(count: int, file: str, *, only_one: bool) -> None:
    """Raises InvalidRequestError for a file of several jobs where one is submitted."""
    if only_one and count != 1:
        raise InvalidRequestError(f"{file} holds {count} jobs, and one is submitted", "submit them with submit_all")


def _create(cluster: ClusterClient, objects: SubmitObjects) -> list[str]:
    from windlass.cli.kubernetes.submit_warnings import missing_object_warnings  # noqa: PLC0415 - as above

    cluster.strict = objects.strict
    for text in (*objects.warnings, *missing_object_warnings(cluster, objects.manifests)):
        warn_of(text)
    return cluster.submit(objects.manifests)


def warn_of(text: str) -> None:
    """Warns the caller of the client."""
    warnings.warn(text, WindlassWarning, stacklevel=2)


def file_of(job: JobSource) -> str:
    """Returns the path of a job file, "" for other sources."""
    is_file = isinstance(job, PathLike) or (isinstance(job, str) and job.endswith(_JOB_FILES) and " " not in job)
    return os.fspath(job) if is_file and isinstance(job, (str, PathLike)) else ""


def _described_file(file: str, fields: Mapping[str, Any]) -> str:
    """Returns the text of a job file; the given fields win over those of each job in it."""
    text = read_text(file)
    if not fields or holds_manifests(text):
        return text.text
    documents = [plain(node) for node in compose(text)]
    if not all(isinstance(each, Mapping) for each in documents):
        return text.text  # whose reader names the line that holds no fields
    return "\n---\n".join(_as_text({**each, **fields}) for each in documents)


def _described(job: JobSource, fields: Mapping[str, Any], *, in_cluster: bool) -> str:
    """Returns the text of a job file that describes a command or fields; a Python script is run by an interpreter."""
    if isinstance(job, Mapping):
        return _as_text({**job, **fields})
    if isinstance(job, str) and (" " in job or not job.endswith(".py")):
        return _as_text({**fields, "command": job})
    words = [job] if isinstance(job, str) else [str(word) for word in cast("Sequence[str]", job)]
    if not in_cluster:
        workdir = os.fspath(fields.get("workdir", ""))
        check_program(RunOptions(workdir=workdir, after=tuple(fields.get("after", ()))), words, None)
    return _as_text({**fields, "command": (image_command if in_cluster else local_command)(words)})


def _as_text(fields: Mapping[str, Any]) -> str:
    """Returns fields as JSON, which is YAML. Raises InvalidRequestError for a value that no job file could have."""
    try:
        return json.dumps(dict(fields), default=_plain)
    except (TypeError, ValueError) as error:
        raise InvalidRequestError(f"a field has a value that no job file could have: {error}") from None


def _plain(value: object) -> object:
    if isinstance(value, Mapping):
        return dict(value)
    if isinstance(value, Sequence):
        return list(value)
    return os.fspath(cast("PathLike[str]", value))
