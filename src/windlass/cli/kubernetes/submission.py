"""Turns a command line into objects to create: manifests unchanged, or short-form jobs with their code."""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Any

from windlass.backends.kubernetes.gangs.name_suffix import name_suffix
from windlass.backends.kubernetes.gangs.repeated_object import without_server_fields
from windlass.cli.config_file import config_path, configured
from windlass.cli.current_user import current_user
from windlass.cli.errors import UsageError
from windlass.cli.job_submission import (
    current_folder,
    image_command,
    read_submissions,
    refuse_schedules,
    split_job_file,
)
from windlass.cli.kubernetes.job_names import resource_of
from windlass.cli.kubernetes.schedules.cron_training_jobs import serves_training_schedules
from windlass.cli.kubernetes.training_jobs import build_training_jobs
from windlass.cli.terminal.formatting import pluralize
from windlass.core.model.job import Job
from windlass.core.model.resources import format_bytes
from windlass.jobs.description.job_file import loads
from windlass.jobs.description.options import RunOptions
from windlass.jobs.description.submission import Submission
from windlass.jobs.errors import InputError
from windlass.jobs.kubernetes.manifests.cron_training_job_manifest import cron_training_job_manifest
from windlass.jobs.kubernetes.manifests.known_fields import Validate
from windlass.jobs.kubernetes.manifests.known_fields.messages import warnings_of_job_file
from windlass.jobs.kubernetes.manifests.manifest_file import holds_manifests, objects_of
from windlass.jobs.kubernetes.other_schedulers.cron_job import cron_job_objects
from windlass.jobs.kubernetes.pods.call_secret import CALL_PREFIX, call_of, call_secret, with_call_secret
from windlass.jobs.kubernetes.pods.code_archive import CodeArchive, config_map, image_of, with_code
from windlass.jobs.syntax.text import STDIN, Text, read_text
from windlass.jobs.syntax.yaml_tree import compose, plain

if TYPE_CHECKING:
    from windlass.cli.kubernetes.job_finder import JobFinder

Manifest = dict[str, Any]
NO = "no"
_STDIN = "<stdin>"
_CRON_JOB_NOTE = (
    "this cluster lacks the kind CronTrainingJob: the schedule is a CronJob, whose runs have no TrainingJob and do not "
    "restart, and Kubernetes decides about late and missed runs; `windlass operator install` adds the kind"
)
_CHECKED_LATER = ("unreadable-file", "unknown-field", "invalid-job", "removed-api-version")
"""Rules of `windlass lint` about faults that the reader of manifests reports itself, as --validate says."""


@dataclass(frozen=True, slots=True)
class SubmitRequest:
    """The input of a command line. `ship`: a folder, "no", or "" for the default. `validate`: None for the default.

    `lint`: the file is checked by the rules of `windlass lint`. `schedules`: jobs with cron become schedules.
    """

    options: RunOptions
    words: Sequence[str]
    file: str | None
    ship: str = ""
    validate: Validate | None = None
    lint: bool = False
    schedules: bool = False

    @property
    def validation(self) -> Validate:
        """Returns how unknown fields are treated."""
        return self.validate or Validate.STRICT

    def text(self) -> Text | None:
        """Returns the text of the named file, None without one. Reads standard input only once. Raises InputError."""
        file, _ = split_job_file(self.words, self.file)
        return None if file is None else read_text(file)


@dataclass(frozen=True, slots=True)
class SubmitObjects:
    """The objects to create, code first, with warnings and notes for the user, a line each."""

    manifests: list[Manifest]
    warnings: list[str]
    notes: list[str]
    strict: bool = False
    """Whether the API server refuses unknown fields; true for manifests that the user wrote."""


def build_objects(request: SubmitRequest, finder: JobFinder) -> SubmitObjects:
    """Returns the objects of a command line. Raises InputError, UsageError, ApiError."""
    text = request.text()
    if text is not None and holds_manifests(text):
        linted = lint_warnings(text) if request.lint else []
        written = _as_written(request, text, finder.namespace)
        return replace(written, warnings=[*linted, *written.warnings])
    with_images, code = jobs_with_code(request, text)
    if request.schedules and any(each.schedule for each in with_images):
        as_cron_jobs = not serves_training_schedules(finder.session)
        built = objects_of_schedules(with_images, code, finder.namespace, as_cron_jobs=as_cron_jobs)
    else:
        built = objects_of_jobs(with_images, code, finder)
    return replace(built, warnings=[*pod_template_warnings(request, text), *built.warnings])


def objects_of_schedules(
    jobs: Sequence[Submission], code: CodeArchive | None, namespace: str = "", *, as_cron_jobs: bool = False
) -> SubmitObjects:
    """Returns the CronTrainingJobs of jobs with schedules. Raises InputError, UsageError.

    `namespace`: that of the objects, "" for objects that name none. `as_cron_jobs`: CronJobs and their services, with a
    note that says what they lack.
    """
    if not all(each.schedule for each in jobs):
        raise UsageError("some jobs have cron and others have not\nsubmit them in two files")
    if code is not None:
        raise UsageError(
            "a schedule outlives shipped code\nname an image that holds the program: --image, and --ship no"
        )
    if not as_cron_jobs:
        schedules = [cron_training_job_manifest(each, namespace) for each in jobs]
        return SubmitObjects([each for each, _ in schedules], [text for _, texts in schedules for text in texts], [])
    made = [cron_job_objects(each, namespace) for each in jobs]
    manifests = [manifest for objects, _ in made for manifest in objects]
    return SubmitObjects(manifests, [text for _, warnings in made for text in warnings], [_CRON_JOB_NOTE])


def objects_of_jobs(jobs: Sequence[Submission], code: CodeArchive | None, finder: JobFinder) -> SubmitObjects:
    """Returns the objects of short-form jobs with images, of their code, and of the calls that they carry out.

    Raises InputError, UsageError, ApiError.
    """
    refuse_schedules(jobs, "this")
    private, calls = _with_private_calls(jobs, finder.namespace)
    made = build_training_jobs(private, finder.namespace, name_suffix, lambda name: [f.name for f in finder.get(name)])
    if code is None:
        return SubmitObjects([*made.manifests, *calls], made.warnings, [])
    files = pluralize(len(code.sizes), "file")
    note = f"shipping the code: {files}, {format_bytes(len(code.archive))} packed ({code.name})"
    return SubmitObjects([config_map(code, finder.namespace), *made.manifests, *calls], made.warnings, [note])


def _with_private_calls(jobs: Sequence[Submission], namespace: str) -> tuple[list[Submission], list[Manifest]]:
    """Returns jobs whose pods read their calls from Secrets, and the Secrets, with random names."""
    private, made = [], []
    for each in jobs:
        if call := call_of(each.job):
            name = f"{CALL_PREFIX}{secrets.token_hex(8)}"
            made.append(call_secret(name, namespace, call))
            private.append(replace(each, job=with_call_secret(each.job, name)))
        else:
            private.append(each)
    return private, made


def lint_warnings(text: Text) -> list[str]:
    """The warnings of `windlass lint` about a file of manifests, a line each. Raises InputError with its errors."""
    from windlass.diagnose.lint.engine import lint_texts  # noqa: PLC0415 - loads all rules
    from windlass.diagnose.lint.findings import RuleSeverity  # noqa: PLC0415

    findings = [each for each in lint_texts([text]) if each.rule not in _CHECKED_LATER]
    errors = [each for each in findings if each.severity is RuleSeverity.ERROR]
    if errors:
        problems = [text.problem(f"{each.message} [{each.rule}]", each.place) for each in errors]
        raise InputError(problems, "`windlass lint` shows the reason and the fix; --no-lint submits it nevertheless")
    warnings = [each for each in findings if each.severity is RuleSeverity.WARNING]
    return [f"{each.source}:{each.place.line}: {each.message} [{each.rule}]" for each in warnings]


def jobs_with_code(request: SubmitRequest, text: Text | None) -> tuple[list[Submission], CodeArchive | None]:
    """Returns the short-form jobs of a command line, each with an image, and the code that is shipped with them.

    Raises as `build_objects`.
    """
    return ship_code(_submissions(request, text), request.ship, _base(request))


def ship_code(read: Sequence[Submission], given: str, base: Path) -> tuple[list[Submission], CodeArchive | None]:
    """Returns jobs, each with an image, and the code that is shipped with them.

    `given`: a folder, "no", or "" for the default. `base`: the default working folder of the jobs. Raises UsageError.
    """
    unnamed = any(not image_of(role) for each in read for role in each.job.roles)
    default = (configured().ship or str(base)) if unnamed else NO
    ship = given or default
    named = [replace(each, job=_with_image(each.job)) for each in read]
    if ship == NO:
        return [replace(each, job=_in_the_image(each.job, base)) for each in named], None
    from windlass.cli.kubernetes.code_folder import pack_folder  # noqa: PLC0415 - loads a library of the extra

    folder = Path(ship).expanduser().absolute()
    code = pack_folder(folder)
    return [replace(each, job=_with_code(each.job, code, folder, base)) for each in named], code


def pod_template_warnings(request: SubmitRequest, text: Text | None) -> list[str]:
    """Returns warnings about the pod templates of short-form jobs. Raises InputError."""
    return [] if text is None else warnings_of_job_file(text, request.validation)


def _submissions(request: SubmitRequest, text: Text | None) -> list[Submission]:
    if text is None or text.source != _STDIN:
        return read_submissions(request.options, request.words, request.file, elsewhere=True)
    _, words = split_job_file(request.words, request.file)
    command = image_command(words)
    return loads(
        text.text,
        source=text.source,
        base=current_folder(),
        user=current_user(),
        options=request.options,
        command=command,
    )


def _base(request: SubmitRequest) -> Path:
    """Returns the default working folder of a job: that of its file, or the current one."""
    file, _ = split_job_file(request.words, request.file)
    return (
        Path(file).absolute().parent
        if file not in (None, STDIN) and Path(str(file)).is_file()
        else Path(current_folder())
    )


def _with_image(job: Job) -> Job:
    default = configured().image
    roles = tuple(role if image_of(role) or not default else replace(role, image=default) for role in job.roles)
    if nameless := [role.name for role in roles if not image_of(role)]:
        raise UsageError(
            f"{job.name}: a pod needs an image, and {', '.join(nameless)} has none\n"
            f"name one with --image, in the job file, or for all jobs in {config_path()} (image: …)"
        )
    return replace(job, roles=roles)


def _with_code(job: Job, code: CodeArchive, folder: Path, base: Path) -> Job:
    """Moves the working folder into the shipped code; a folder outside of it is one of the image."""
    workdir = Path(job.workdir)
    if workdir.is_relative_to(folder):
        return with_code(job, code, PurePosixPath(workdir.relative_to(folder)))
    return with_code(job, code, None if workdir == base else PurePosixPath(workdir))


def _in_the_image(job: Job, base: Path) -> Job:
    """Removes a working folder of this machine, which does not exist in the image."""
    return replace(job, workdir="") if Path(job.workdir).is_relative_to(base) else job


def refuse_extra_options(request: SubmitRequest, text: Text) -> None:
    """Raises UsageError if the command line adds options or words to manifests, which are submitted unchanged."""
    _, words = split_job_file(request.words, request.file)
    if request.options != RunOptions() or words or request.ship:
        raise UsageError(f"{text.source} holds manifests, which take no other options\nname only the file")


def _as_written(request: SubmitRequest, text: Text, namespace: str) -> SubmitObjects:
    """Returns manifests of jobs, with only the namespace filled in."""
    refuse_extra_options(request, text)
    warnings = objects_of(text, request.validation, in_cluster=True).warnings
    manifests = [each for document in compose(text) for each in _items(plain(document))]
    for each in manifests:
        if resource_of(each) is None:
            raise UsageError(
                f"{text.source}: a {each.get('kind')} is not a job\nkubectl apply -f {text.source} accepts any kind"
            )
    made = [_within(without_server_fields(each), namespace) for each in manifests]
    return SubmitObjects(made, warnings, [], strict=request.validation is Validate.STRICT)


def _items(document: Manifest) -> list[Manifest]:
    return list(document["items"]) if document.get("kind") == "List" and document.get("items") else [document]


def _within(manifest: Manifest, namespace: str) -> Manifest:
    about = manifest["metadata"]
    return {**manifest, "metadata": {**about, "namespace": about.get("namespace") or namespace}}
