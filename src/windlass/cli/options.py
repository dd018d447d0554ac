"""The options that describe a job, for every verb that takes one; generated from the table of job-file fields."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Sequence
from dataclasses import fields
from pathlib import Path
from typing import Annotated, Any, TypeAlias, get_type_hints

import typer

from windlass.cli.errors import UsageError
from windlass.jobs.description.options import RunOptions, completions_of, expectation_of, flags_of, help_of
from windlass.jobs.kubernetes.manifests.known_fields import Validate
from windlass.server.cluster_options import ClusterOptions

Verb: TypeAlias = Callable[..., Any]
"""A verb returns its exit code; the reader of a notebook's cell, its options."""
_HINTS = get_type_hints(RunOptions)
_MANY = {name for name, hint in _HINTS.items() if hint == tuple[str, ...]}
_ONCE = {"cron": "a schedule has one\nwrite all times in one, as in '0 3,15 * * *', or submit a schedule for each"}
"""Options that are refused a second time, with the reason and the fix: the second value might be meant as one more."""

CommandArgument = Annotated[
    list[str] | None,
    typer.Argument(metavar="[--] COMMAND… | JOB.yaml", help="What every rank runs, or a job file.", show_default=False),
]
FileOption = Annotated[str | None, typer.Option("-f", "--file", metavar="JOB.yaml", help="A job file; - is stdin.")]
NodesOption = Annotated[int | None, typer.Option("--local-nodes", min=1, help="Without a daemon: number of nodes.")]
GpusOption = Annotated[
    int | None, typer.Option("--local-gpus", min=0, help="Without a daemon: GPUs (or slots) per node.")
]
ClusterOption = Annotated[
    Path | None, typer.Option("--cluster", help="Without a daemon: nodes and queues from a file.")
]
PolicyOption = Annotated[
    str,
    typer.Option("--policy", metavar="POLICY", help="Without a daemon: scheduling policy: fifo, fair, windlass, …"),
]

SHIP_NEEDS_KUBERNETES = "--ship is for Kubernetes: on this machine a job runs in its own folder\nadd --on kubernetes"
ShipOption = Annotated[
    str,
    typer.Option(
        "--ship",
        metavar="DIR|no",
        help="On Kubernetes: the folder of code to send with the job. Default: the current one, if no image is named.",
    ),
]

ValidateOption = Annotated[
    Validate | None,
    typer.Option(
        "--validate",
        help="On Kubernetes: unknown fields of a manifest are refused (strict, the default), reported or ignored.",
        show_default=False,
    ),
]

NoLintOption = Annotated[
    bool, typer.Option("--no-lint", help="On Kubernetes: do not check a file of manifests as `windlass lint` does.")
]


def refuse_validate(validate: Validate | None, option: str) -> None:
    """Raises UsageError if --validate is given without `option`, which selects Kubernetes."""
    if validate:
        raise UsageError(f"--validate is for Kubernetes manifests\nadd {option}")


def refuse_no_lint(option: str, *, no_lint: bool) -> None:
    """Raises UsageError if --no-lint is given for a job of this machine."""
    if no_lint:
        raise UsageError(f"--no-lint is for Kubernetes manifests\nadd {option}")


def refuse_for_slurm(ship: str, validate: Validate | None, *, no_lint: bool) -> None:
    """Raises UsageError if options of Kubernetes are given for a job of Slurm."""
    given = {"--ship": ship, "--validate": validate, "--no-lint": no_lint}
    if options := [name for name, value in given.items() if value]:
        raise UsageError(
            f"{', '.join(options)}: for Kubernetes; on Slurm a job runs in its folder, which all nodes share\n"
            "remove the option"
        )


def requested_cluster(nodes: int | None, gpus: int | None, cluster: Path | None, policy: str) -> ClusterOptions:
    """Returns the nodes and policy that a command line requests. Raises InputError for an unknown policy."""
    if policy:
        from windlass.server.cluster_selection import parse_policy  # noqa: PLC0415 - loads the backend

        parse_policy(policy)
    return ClusterOptions(nodes, gpus, cluster, policy)


def refuse_local_cluster_options(nodes: int | None, gpus: int | None, cluster: Path | None, policy: str) -> None:
    """Raises UsageError if nodes, queues or policy are given for a cluster, which defines its own."""
    given = {"--local-nodes": nodes, "--local-gpus": gpus, "--cluster": cluster, "--policy": policy or None}
    if options := [name for name, value in given.items() if value is not None]:
        raise UsageError(f"{', '.join(options)}: a cluster has its own\nremove the option, or add --on local")


def takes_job_options(verb: Verb) -> Verb:
    """Replaces the first parameter of `verb`, a RunOptions, by one option for each field of it."""
    own = list(inspect.signature(verb, eval_str=True).parameters.values())[1:]

    @functools.wraps(verb)
    def with_options(**given: Any) -> Any:
        described = {field.name: given.pop(field.name) for field in fields(RunOptions)}
        values: dict[str, Any] = {name: value for name, value in described.items() if value is not None}
        for name in values.keys() & _MANY:
            values[name] = tuple(values[name])
        for name in values.keys() & _ONCE.keys():
            values[name] = _only(name, values[name])
        return verb(RunOptions(**values), **given)

    parameters = [*(_positional(own)), *(_option(field.name) for field in fields(RunOptions)), *(_named(own))]
    del with_options.__wrapped__  # otherwise typer reads the signature of `verb`
    with_options.__signature__ = inspect.Signature(parameters, return_annotation=int)  # type: ignore[attr-defined]
    with_options.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    return with_options


def _only(name: str, given: Sequence[str]) -> str:
    """Returns the one value of an option. Raises BadParameter if it is given several times."""
    if len(given) > 1:
        raise typer.BadParameter(f"{len(given)} are given, but {_ONCE[name]}", param_hint=flags_of(name)[-1])
    return given[0]


def _option(name: str) -> inspect.Parameter:
    annotation: Any = list[str] | None if name in _MANY | _ONCE.keys() else _HINTS[name]
    number: dict[str, Any] = {}
    if annotation == int | None:
        number = {"parser": functools.partial(_read_integer, name), "metavar": "<int>"}
    extra: dict[str, Any] = {**number, **({"autocompletion": _offer(words)} if (words := completions_of(name)) else {})}
    option = typer.Option(*flags_of(name), help=help_of(name), show_default=False, **extra)
    kind = inspect.Parameter.KEYWORD_ONLY
    return inspect.Parameter(name, kind, default=None, annotation=Annotated[annotation, option])


def _offer(words: Sequence[str]) -> Callable[[str], list[str]]:
    """Returns the completion of an option that accepts these words."""

    def complete(incomplete: str) -> list[str]:
        return [word for word in words if word.startswith(incomplete)]

    return complete


def _read_integer(name: str, text: str | int) -> int:
    """Parses a field's integer. Raises BadParameter with the range that the field accepts."""
    try:
        return int(text)
    except ValueError:
        raise typer.BadParameter(expectation_of(name, str(text))) from None


def _is_positional(parameter: inspect.Parameter) -> bool:
    return isinstance(parameter.annotation.__metadata__[0], typer.models.ArgumentInfo)


def _positional(parameters: list[inspect.Parameter]) -> list[inspect.Parameter]:
    return [p.replace(kind=inspect.Parameter.KEYWORD_ONLY) for p in parameters if _is_positional(p)]


def _named(parameters: list[inspect.Parameter]) -> list[inspect.Parameter]:
    return [p.replace(kind=inspect.Parameter.KEYWORD_ONLY) for p in parameters if not _is_positional(p)]
