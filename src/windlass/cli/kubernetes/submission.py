"""From the command line's words to the objects to make: manifests as they stand, or short jobs with their code."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Any

from windlass.backends.kubernetes.gangs.stored_state import ANNOTATION
from windlass.cli.config_file import config_path, configured
from windlass.cli.errors import UsageError
from windlass.cli.job_submission import current_folder, current_user, image_command, read_submissions, split_job_file
from windlass.cli.kubernetes.job_actions import CANCEL_ANNOTATION
from windlass.cli.kubernetes.job_names import resource_of
from windlass.cli.kubernetes.training_jobs import build_training_jobs
from windlass.cli.terminal.formatting import pluralize
from windlass.core.model.job import Job
from windlass.jobs.description.job_file import loads
from windlass.jobs.description.options import RunOptions
from windlass.jobs.description.submission import Submission
from windlass.jobs.kubernetes.manifests.known_fields import Validate
from windlass.jobs.kubernetes.manifests.known_fields.messages import warnings_of_job_file
from windlass.jobs.kubernetes.manifests.manifest_file import holds_manifests, objects_of
from windlass.jobs.kubernetes.pods.code_archive import Packed, config_map, image_of, size, with_code
from windlass.jobs.syntax.text import STDIN, Text, read_text
from windlass.jobs.syntax.yaml_tree import compose, plain

if TYPE_CHECKING:
    from windlass.cli.kubernetes.job_finder import JobFinder

Manifest = dict[str, Any]
NO = "no"
_STDIN = "<stdin>"
_LETTERS = "bcdfghjklmnpqrstvwxz2456789"
"""Of suffixes, as Kubernetes draws them: no words come of it."""


@dataclass(frozen=True, slots=True)
class SubmitRequest:
    """What a command line says. `ship`: a folder, "no", or "" for what is usual. `validate`: None, too, is usual."""

    options: RunOptions
    words: Sequence[str]
    file: str | None
    ship: str = ""
    validate: Validate | None = None

    @property
    def validation(self) -> Validate:
        """What becomes of unknown fields."""
        return self.validate or Validate.STRICT

    def text(self) -> Text | None:
        """The file's, if one is named. Raises JobError. Standard input can be read once."""
        file, _ = split_job_file(self.words, self.file)
        return None if file is None else read_text(file)


@dataclass(frozen=True, slots=True)
class SubmitObjects:
    """The objects to make, code first, and what to tell people of them, a line each."""

    manifests: list[Manifest]
    warnings: list[str]
    notes: list[str]
    strict: bool = False
    """Whether the API server is to refuse what its definitions lack: of objects that somebody else wrote."""


def build_objects(given: SubmitRequest, finder: JobFinder) -> SubmitObjects:
    """Raises JobError, UsageError, ApiError."""
    text = given.text()
    if text is not None and holds_manifests(text):
        return _as_written(given, text, finder.namespace)
    with_images, code = jobs_with_code(given, text)
    warnings = pod_template_warnings(given, text)
    made = build_training_jobs(with_images, finder.namespace, _suffix, lambda name: [f.name for f in finder.the(name)])
    if code is None:
        return SubmitObjects(made.manifests, [*warnings, *made.warnings], [])
    files = pluralize(len(code.sizes), "file")
    note = f"the code goes along: {files}, {size(len(code.archive))} packed ({code.name})"
    return SubmitObjects([config_map(code, finder.namespace), *made.manifests], [*warnings, *made.warnings], [note])


def jobs_with_code(given: SubmitRequest, text: Text | None) -> tuple[list[Submission], Packed | None]:
    """The short jobs of a command line, each with an image, and with the code that goes along. Raises as `handed`."""
    base = _base(given)
    read = _submissions(given, text)
    unnamed = any(not image_of(role) for each in read for role in each.job.roles)
    usual = (configured().ship or str(base)) if unnamed else NO
    ship = given.ship or usual
    named = [replace(each, job=_with_image(each.job)) for each in read]
    if ship == NO:
        return [replace(each, job=_in_the_image(each.job, base)) for each in named], None
    from windlass.cli.kubernetes.code_folder import pack_folder  # noqa: PLC0415 - loads a library of the extra

    folder = Path(ship).expanduser().absolute()
    code = pack_folder(folder)
    return [replace(each, job=_with_code(each.job, code, folder, base)) for each in named], code


def pod_template_warnings(given: SubmitRequest, text: Text | None) -> list[str]:
    """What is told of the pod templates of short jobs. Raises JobError."""
    return [] if text is None else warnings_of_job_file(text, given.validation)


def _submissions(given: SubmitRequest, text: Text | None) -> list[Submission]:
    if text is None or text.source != _STDIN:
        return read_submissions(given.options, given.words, given.file, elsewhere=True)
    _, words = split_job_file(given.words, given.file)
    command = image_command(words)
    return loads(
        text.text,
        source=text.source,
        base=current_folder(),
        user=current_user(),
        options=given.options,
        command=command,
    )


def _base(given: SubmitRequest) -> Path:
    """The folder that a job is in that says no other: its file's, or the current one."""
    file, _ = split_job_file(given.words, given.file)
    return (
        Path(file).absolute().parent
        if file not in (None, STDIN) and Path(str(file)).is_file()
        else Path(current_folder())
    )


def _with_image(job: Job) -> Job:
    usual = configured().image
    roles = tuple(role if image_of(role) or not usual else replace(role, image=usual) for role in job.roles)
    if nameless := [role.name for role in roles if not image_of(role)]:
        raise UsageError(
            f"{job.name}: a pod needs an image, and {', '.join(nameless)} has none\n"
            f"name one with --image, in the job file, or for all jobs in {config_path()} (image: …)"
        )
    return replace(job, roles=roles)


def _with_code(job: Job, code: Packed, folder: Path, base: Path) -> Job:
    """In the folder that goes along; one that is elsewhere is the image's own."""
    workdir = Path(job.workdir)
    if workdir.is_relative_to(folder):
        return with_code(job, code, PurePosixPath(workdir.relative_to(folder)))
    return with_code(job, code, None if workdir == base else PurePosixPath(workdir))


def _in_the_image(job: Job, base: Path) -> Job:
    """The folder that the job was written in is none of the image's."""
    return replace(job, workdir="") if Path(job.workdir).is_relative_to(base) else job


def refuse_extra_options(given: SubmitRequest, text: Text) -> None:
    """Manifests are handed in as they stand. Raises UsageError if the command line says more."""
    _, words = split_job_file(given.words, given.file)
    if given.options != RunOptions() or words or given.ship:
        raise UsageError(f"{text.source} holds manifests, which say everything themselves\nname the file alone")


def _as_written(given: SubmitRequest, text: Text, namespace: str) -> SubmitObjects:
    """Manifests of jobs, with a namespace and nothing else filled in."""
    refuse_extra_options(given, text)
    warnings = objects_of(text, given.validation).warnings
    manifests = [each for document in compose(text) for each in _items(plain(document))]
    for each in manifests:
        if resource_of(each) is None:
            raise UsageError(
                f"{text.source}: a {each.get('kind')} is no job\nkubectl apply -f {text.source} takes everything"
            )
    made = [_within(without_server_fields(each), namespace) for each in manifests]
    return SubmitObjects(made, warnings, [], strict=given.validation is Validate.STRICT)


def _items(document: Manifest) -> list[Manifest]:
    return list(document["items"]) if document.get("kind") == "List" and document.get("items") else [document]


def _within(manifest: Manifest, namespace: str) -> Manifest:
    about = manifest["metadata"]
    return {**manifest, "metadata": {**about, "namespace": about.get("namespace") or namespace}}


def _suffix() -> str:
    return "".join(random.SystemRandom().choices(_LETTERS, k=5))


_OF_THE_SERVER = (
    "uid",
    "resourceVersion",
    "generation",
    "creationTimestamp",
    "deletionTimestamp",
    "deletionGracePeriodSeconds",
    "managedFields",
    "selfLink",
)
_OF_ITS_LIFE = (ANNOTATION, CANCEL_ANNOTATION)
"""Annotations that say what became of that object."""


def without_server_fields(manifest: Manifest) -> Manifest:
    """Without what servers filled in, and without what became of it."""
    about = _mapping(manifest.get("metadata"))
    kept = {name: value for name, value in about.items() if name not in _OF_THE_SERVER}
    if annotations := _mapping(kept.pop("annotations", None)):
        kept["annotations"] = {name: text for name, text in annotations.items() if name not in _OF_ITS_LIFE}
    return {**{name: value for name, value in manifest.items() if name != "status"}, "metadata": kept}


def _mapping(value: Any) -> Manifest:
    return value if isinstance(value, dict) else {}
