"""The verbs `explain`, `render` and `schema`, about job files. They need no daemon."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from windlass.jobs.description.options import RunOptions
from windlass.jobs.kubernetes.manifests.known_fields import Validate

if TYPE_CHECKING:
    from windlass.jobs.description.submission import Submission
    from windlass.jobs.kubernetes.manifests.manifest_file import Objects
import sys
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated

import typer

from windlass.cli.completion import complete_explained_names
from windlass.cli.errors import UsageError
from windlass.cli.exit_codes import ExitCode
from windlass.cli.job_submission import read_submissions, refuse_schedules, with_launcher
from windlass.cli.options import (
    CommandArgument,
    FileOption,
    ShipOption,
    ValidateOption,
    refuse_validate,
    takes_job_options,
)
from windlass.cli.terminal.output import as_json

if TYPE_CHECKING:
    from windlass.jobs.kubernetes.manifests.manifest_file import Objects

_FOR_KUBERNETES = "--for kubernetes"
_NO_SCHEDULE = f"--for cronjob prints a job with cron\nadd --cron to a job, or use {_FOR_KUBERNETES}"


class _Form(StrEnum):
    YAML = "yaml"
    JSON = "json"


class _Target(StrEnum):
    KUBERNETES = "kubernetes"
    TRAININGJOB = "trainingjob"
    SLURM = "slurm"
    KUEUE = "kueue"
    VOLCANO = "volcano"
    COSCHEDULING = "coscheduling"
    NATIVE = "native"
    JOBSET = "jobset"
    CRONJOB = "cronjob"


_OTHER_SCHEDULERS = (_Target.KUEUE, _Target.VOLCANO, _Target.COSCHEDULING, _Target.NATIVE, _Target.JOBSET)


def explain(
    name: Annotated[
        str,
        typer.Argument(
            metavar="[NAME]",
            help="For example job.restart.user, queue.quota, network.efa, doctor.gpu.ecc or package-missing.",
            autocompletion=complete_explained_names,
        ),
    ] = "job",
) -> int:
    """Document a field of a job file or of a Windlass kind on Kubernetes: its meaning, values and default.

    Network profiles begin with network, checks of `windlass doctor` with doctor. A rule or a cause of `windlass doctor`
    and a rule of `windlass lint` have their names: what it proves, what else must be there, the fix and the source.
    """
    from windlass.cli.explained_names import page_of  # noqa: PLC0415 - loads the tables

    print(page_of(name).rstrip())
    return ExitCode.OK


@takes_job_options
def render(
    options: RunOptions,
    words: CommandArgument = None,
    file: FileOption = None,
    target: Annotated[
        _Target | None,
        typer.Option(
            "--for",
            help="kubernetes: print the objects that are created there, of manifests too; with cron a CronTrainingJob; "
            "cronjob: with cron a CronJob of Kubernetes; trainingjob: one resource; slurm: a batch script; kueue, "
            "volcano, coscheduling, native, jobset: manifests for that scheduler.",
        ),
    ] = None,
    ship: ShipOption = "",
    validate: ValidateOption = None,
    output: Annotated[_Form, typer.Option("-o", "--output", help="Output format.")] = _Form.YAML,
) -> int:
    """Print a job with every default filled in, as a job file."""
    from windlass.jobs.description.rendering import as_fields  # noqa: PLC0415
    from windlass.jobs.description.rendering import render as rendered  # noqa: PLC0415

    if target in (_Target.KUBERNETES, _Target.CRONJOB):
        as_cron_jobs = target is _Target.CRONJOB
        found = kubernetes_objects(options, words or [], file, ship, validate, as_cron_jobs=as_cron_jobs)
        return _print_objects(found, output)
    if ship:
        raise UsageError(f"--ship goes with {_FOR_KUBERNETES}")
    refuse_validate(validate, _FOR_KUBERNETES)
    submissions = read_submissions(options, words or [], file, for_manifests=_FOR_KUBERNETES)
    if target is _Target.TRAININGJOB:
        return _print_objects(training_job_resources(submissions), output)
    if target is _Target.SLURM:
        return _print_batch_script(submissions)
    if target in _OTHER_SCHEDULERS:
        return _print_objects(_manifests_for(submissions, target), output)
    submissions = [with_launcher(each) for each in submissions]
    if output is _Form.JSON:
        fields = [as_fields(submission) for submission in submissions]
        print(as_json(fields if len(fields) != 1 else fields[0]))
    else:
        print("---\n".join(rendered(submission) for submission in submissions), end="")
    return ExitCode.OK


def _print_batch_script(submissions: Sequence[Submission]) -> int:
    """Prints the batch script of one job, and on stderr what it cannot say."""
    from windlass.jobs.slurm.rendered_script import render_script  # noqa: PLC0415

    if len(submissions) != 1:
        raise UsageError(f"a batch script is one job, and the file has {len(submissions)}\nname a file of one job")
    refuse_schedules(submissions, "a batch script")
    script = render_script(submissions[0])
    for loss in script.losses:
        print(f"windlass: {loss}", file=sys.stderr)
    print(script.text, end="")
    return ExitCode.OK


def _manifests_for(submissions: Sequence[Submission], scheduler: str) -> Objects:
    """The objects that run the jobs with a scheduler of others, and what they lose. Raises InputError."""
    from windlass.jobs.kubernetes.manifests.manifest_file import Objects  # noqa: PLC0415 - loads the YAML parser
    from windlass.jobs.kubernetes.other_schedulers.other_scheduler import OtherScheduler  # noqa: PLC0415
    from windlass.jobs.kubernetes.other_schedulers.rendered_manifests import render_manifests  # noqa: PLC0415

    made = render_manifests(submissions, OtherScheduler(scheduler))
    return Objects(list(made.objects), list(made.warnings))


def _print_objects(found: Objects, form: _Form) -> int:
    from windlass.jobs.kubernetes.manifests.manifest_file import as_list, as_yaml  # noqa: PLC0415

    for warning in found.warnings:
        print(f"windlass: {warning}", file=sys.stderr)
    print(as_json(as_list(found.objects)) if form is _Form.JSON else as_yaml(found.objects).rstrip())
    return ExitCode.OK


def schema() -> int:
    """Print the JSON Schema of job files, for editors."""
    from windlass.jobs.field_docs import json_schema as written  # noqa: PLC0415

    print(as_json(written.schema()))
    return ExitCode.OK


def kubernetes_objects(
    options: RunOptions,
    words: Sequence[str],
    file: str | None,
    ship: str = "",
    validate: Validate | None = None,
    *,
    as_cron_jobs: bool = False,
) -> Objects:
    """Returns the objects of a file of manifests, or of a short-form job: its pods, and its code if that is shipped.

    A job with cron is a CronTrainingJob or, with `as_cron_jobs`, a CronJob and its service.

    Raises InputError, UsageError.
    """
    from windlass.cli.kubernetes.submission import (  # noqa: PLC0415 - loads the YAML parser
        SubmitRequest,
        jobs_with_code,
        objects_of_schedules,
        pod_template_warnings,
        refuse_extra_options,
    )
    from windlass.jobs.kubernetes.manifests.job_file_objects import objects_of_jobs  # noqa: PLC0415
    from windlass.jobs.kubernetes.manifests.manifest_file import Objects, holds_manifests, objects_of  # noqa: PLC0415
    from windlass.jobs.kubernetes.pods.code_archive import config_map  # noqa: PLC0415

    request = SubmitRequest(options, words, file, ship, validate)
    text = request.text()
    if text is not None and holds_manifests(text):
        if as_cron_jobs:
            raise UsageError(_NO_SCHEDULE)
        refuse_extra_options(request, text)
        return objects_of(text, request.validation)
    jobs, code = jobs_with_code(request, text)
    warnings = pod_template_warnings(request, text)
    has_schedules = any(each.schedule for each in jobs)
    if as_cron_jobs and not has_schedules:
        raise UsageError(_NO_SCHEDULE)
    if has_schedules:
        made = objects_of_schedules(jobs, code, as_cron_jobs=as_cron_jobs)
        return Objects(made.manifests, [*warnings, *made.warnings])
    pods = objects_of_jobs(jobs)
    code_objects = [] if code is None else [config_map(code)]
    return Objects([*code_objects, *pods.objects], [*warnings, *pods.warnings])


def training_job_resources(submissions: Sequence[Submission]) -> Objects:
    """Returns a TrainingJob for each short-form job. Raises InputError."""
    from windlass.jobs.kubernetes.manifests.job_file_objects import resources_of_jobs  # noqa: PLC0415

    return resources_of_jobs(submissions)
