"""What `render --for` is given: manifests as they stand, or jobs as every verb takes them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from windlass.cli.failures import UsageError
from windlass.cli.handing import file_of, here, runnable, submissions, user
from windlass.jobs.options import RunOptions

if TYPE_CHECKING:
    from windlass.jobs.kubernetes.manifest_file import Objects
    from windlass.jobs.submission import Submission


def objects(options: RunOptions, words: Sequence[str], file: str | None) -> Objects:
    """Every object of a file's manifests, or of a short job's pods. Raises JobError, UsageError."""
    from windlass.jobs.job_file import loads  # noqa: PLC0415 - loads the YAML parser, as all below
    from windlass.jobs.kubernetes.manifest_file import holds_manifests, objects_of  # noqa: PLC0415
    from windlass.jobs.kubernetes.own_pods import objects_of_jobs  # noqa: PLC0415
    from windlass.jobs.text import read_text  # noqa: PLC0415

    file, words = file_of(words, file)
    if file is None:
        return objects_of_jobs(submissions(options, words, None))
    text = read_text(file)
    if not holds_manifests(text):
        given = {"source": text.source, "base": here(), "user": user()}
        return objects_of_jobs(loads(text.text, options=options, command=runnable(words), **given))
    if options != RunOptions() or words:
        raise UsageError(f"{text.source} holds manifests, which say everything themselves\nname the file alone")
    return objects_of(text)


def resources(handed: Sequence[Submission]) -> Objects:
    """The resource that each short job is on a cluster. Raises JobError."""
    from windlass.jobs.kubernetes.own_pods import resources_of_jobs  # noqa: PLC0415

    return resources_of_jobs(handed)
