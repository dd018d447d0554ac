"""Verbs about job files: `explain`, `render`, `schema`. None needs a daemon."""

from __future__ import annotations

import sys
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated

import typer

from windlass.cli.exit_codes import ExitCode
from windlass.cli.failures import UsageError
from windlass.cli.handing import submissions
from windlass.cli.options import (
    FileOption,
    ShipOption,
    ValidateOption,
    Words,
    refuse_validate,
    takes_job_options,
)
from windlass.cli.output import as_json
from windlass.cli.rendering import objects, resources
from windlass.jobs.options import RunOptions

if TYPE_CHECKING:
    from windlass.jobs.kubernetes.manifest_file import Objects

_FOR_KUBERNETES = "--for kubernetes"


class _Form(StrEnum):
    YAML = "yaml"
    JSON = "json"


class _Target(StrEnum):
    KUBERNETES = "kubernetes"
    TRAININGJOB = "trainingjob"


def explain(
    field: Annotated[str, typer.Argument(metavar="[FIELD]", help="Such as job.restart.user, or queue.quota.")] = "job",
) -> int:
    """What a field of a job file, or of a kind of ours on Kubernetes, means, takes and defaults to."""
    from windlass.jobs import explain as pages  # noqa: PLC0415

    print(pages.explain(field).rstrip())
    return ExitCode.OK


@takes_job_options
def render(
    options: RunOptions,
    words: Words = None,
    file: FileOption = None,
    target: Annotated[
        _Target | None,
        typer.Option(
            "--for",
            help="kubernetes: as the objects that it becomes there, manifests too; trainingjob: as one resource.",
        ),
    ] = None,
    ship: ShipOption = "",
    validate: ValidateOption = None,
    output: Annotated[_Form, typer.Option("-o", "--output", help="How to print it.")] = _Form.YAML,
) -> int:
    """Print a job as Windlass understands it, every default filled in. What it prints is a job file."""
    from windlass.jobs.render import as_fields  # noqa: PLC0415
    from windlass.jobs.render import render as rendered  # noqa: PLC0415

    if target is _Target.KUBERNETES:
        return _print_objects(objects(options, words or [], file, ship, validate), output)
    if ship:
        raise UsageError(f"--ship goes with {_FOR_KUBERNETES}")
    refuse_validate(validate, _FOR_KUBERNETES)
    handed = submissions(options, words or [], file, for_manifests=_FOR_KUBERNETES)
    if target is _Target.TRAININGJOB:
        return _print_objects(resources(handed), output)
    if output is _Form.JSON:
        fields = [as_fields(submission) for submission in handed]
        print(as_json(fields if len(fields) != 1 else fields[0]))
    else:
        print("---\n".join(rendered(submission) for submission in handed), end="")
    return ExitCode.OK


def _print_objects(found: Objects, form: _Form) -> int:
    from windlass.jobs.kubernetes.manifest_file import as_list, as_yaml  # noqa: PLC0415

    for warning in found.warnings:
        print(f"windlass: {warning}", file=sys.stderr)
    print(as_json(as_list(found.objects)) if form is _Form.JSON else as_yaml(found.objects).rstrip())
    return ExitCode.OK


def schema() -> int:
    """Print the JSON Schema of job files, for editors."""
    from windlass.jobs import schema as written  # noqa: PLC0415

    print(as_json(written.schema()))
    return ExitCode.OK
