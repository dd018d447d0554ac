"""What `render --for` is given: manifests as they stand, or jobs as every verb takes them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from windlass.jobs.kubernetes.known_fields.validate import Validate
from windlass.jobs.options import RunOptions

if TYPE_CHECKING:
    from windlass.jobs.kubernetes.manifest_file import Objects
    from windlass.jobs.submission import Submission


def objects(
    options: RunOptions, words: Sequence[str], file: str | None, ship: str = "", validate: Validate | None = None
) -> Objects:
    """Every object of a file's manifests, or of a short job: its code, if that goes along, and its pods.

    Raises JobError, UsageError.
    """
    from windlass.cli.cluster.handing import Given, of_pods, refuse_more, shipped  # noqa: PLC0415 - loads the YAML parser
    from windlass.jobs.kubernetes.manifest_file import Objects, holds_manifests, objects_of  # noqa: PLC0415
    from windlass.jobs.kubernetes.own_pods import objects_of_jobs  # noqa: PLC0415
    from windlass.jobs.kubernetes.shipping import config_map  # noqa: PLC0415

    given = Given(options, words, file, ship, validate)
    text = given.text()
    if text is not None and holds_manifests(text):
        refuse_more(given, text)
        return objects_of(text, given.validation)
    jobs, code = shipped(given, text)
    told, found = of_pods(given, text), objects_of_jobs(jobs)
    beside = [] if code is None else [config_map(code)]
    return Objects([*beside, *found.objects], [*told, *found.warnings])


def resources(handed: Sequence[Submission]) -> Objects:
    """The resource that each short job is on a cluster. Raises JobError."""
    from windlass.jobs.kubernetes.own_pods import resources_of_jobs  # noqa: PLC0415

    return resources_of_jobs(handed)
