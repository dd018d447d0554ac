"""The options that describe a job, for every verb that takes one: made from the table of fields that files have."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from dataclasses import fields
from pathlib import Path
from typing import Annotated, Any, TypeAlias, get_type_hints

import typer

from windlass.cli.errors import UsageError
from windlass.jobs.description.options import RunOptions, flags_of, help_of
from windlass.jobs.kubernetes.manifests.known_fields import Validate
from windlass.server.cluster_options import ClusterOptions

Verb: TypeAlias = Callable[..., int]
_HINTS = get_type_hints(RunOptions)
_MANY = {name for name, hint in _HINTS.items() if hint == tuple[str, ...]}

CommandArgument = Annotated[
    list[str] | None,
    typer.Argument(metavar="[--] COMMAND… | JOB.yaml", help="What every rank runs, or a job file.", show_default=False),
]
FileOption = Annotated[str | None, typer.Option("-f", "--file", metavar="JOB.yaml", help="A job file; - is stdin.")]
NodesOption = Annotated[int | None, typer.Option("--local-nodes", min=1, help="Without a daemon: so many nodes.")]
GpusOption = Annotated[
    int | None, typer.Option("--local-gpus", min=0, help="Without a daemon: GPUs (or slots) of each.")
]
ClusterOption = Annotated[
    Path | None, typer.Option("--cluster", help="Without a daemon: nodes and queues from a file.")
]
PolicyOption = Annotated[
    str,
    typer.Option(
        "--policy", metavar="POLICY", help="Without a daemon: how nodes are given away: fifo, fair, windlass, …"
    ),
]

SHIP_NEEDS_KUBERNETES = "--ship is for Kubernetes: on this machine a job runs in its own folder\nadd --on kubernetes"
ShipOption = Annotated[
    str,
    typer.Option(
        "--ship",
        metavar="DIR|no",
        help="On Kubernetes: the folder that goes along. Usually the current one, if no image is named.",
    ),
]

ValidateOption = Annotated[
    Validate | None,
    typer.Option(
        "--validate",
        help="On Kubernetes: what becomes of a manifest's unknown fields: refused (strict, as usual), told or ignored.",
        show_default=False,
    ),
]


def refuse_validate(validate: Validate | None, option: str) -> None:
    """Of a verb that is not about Kubernetes for want of an option. Raises UsageError."""
    if validate:
        raise UsageError(f"--validate is for manifests, which go to Kubernetes\nadd {option}")


def requested_cluster(nodes: int | None, gpus: int | None, cluster: Path | None, policy: str) -> ClusterOptions:
    """The cluster that a command line asks for. Raises JobError if there is no such policy."""
    if policy:
        from windlass.server.cluster_selection import parse_policy  # noqa: PLC0415 - loads the world

        parse_policy(policy)
    return ClusterOptions(nodes, gpus, cluster, policy)


def refuse_local_cluster_options(nodes: int | None, gpus: int | None, cluster: Path | None, policy: str) -> None:
    """A cluster has its nodes, queues and policy already. Raises UsageError if a command line says others."""
    given = {"--local-nodes": nodes, "--local-gpus": gpus, "--cluster": cluster, "--policy": policy or None}
    if said := [name for name, value in given.items() if value is not None]:
        raise UsageError(f"{', '.join(said)}: a cluster has its own\nleave that out, or add --on local")


def takes_job_options(verb: Verb) -> Verb:
    """Give `verb`, whose first parameter is a RunOptions, one option for each of its fields."""
    own = list(inspect.signature(verb, eval_str=True).parameters.values())[1:]

    @functools.wraps(verb)
    def with_options(**given: Any) -> int:
        described = {field.name: given.pop(field.name) for field in fields(RunOptions)}
        values: dict[str, Any] = {name: value for name, value in described.items() if value is not None}
        for name in values.keys() & _MANY:
            values[name] = tuple(values[name])
        return verb(RunOptions(**values), **given)

    parameters = [*(_positional(own)), *(_option(field.name) for field in fields(RunOptions)), *(_named(own))]
    del with_options.__wrapped__  # or the signature would be read from the verb
    with_options.__signature__ = inspect.Signature(parameters, return_annotation=int)  # type: ignore[attr-defined]
    with_options.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    return with_options


def _option(name: str) -> inspect.Parameter:
    annotation: Any = list[str] | None if name in _MANY else _HINTS[name]
    option = typer.Option(*flags_of(name), help=help_of(name), show_default=False)
    kind = inspect.Parameter.KEYWORD_ONLY
    return inspect.Parameter(name, kind, default=None, annotation=Annotated[annotation, option])


def _is_positional(parameter: inspect.Parameter) -> bool:
    return isinstance(parameter.annotation.__metadata__[0], typer.models.ArgumentInfo)


def _positional(parameters: list[inspect.Parameter]) -> list[inspect.Parameter]:
    return [p.replace(kind=inspect.Parameter.KEYWORD_ONLY) for p in parameters if _is_positional(p)]


def _named(parameters: list[inspect.Parameter]) -> list[inspect.Parameter]:
    return [p.replace(kind=inspect.Parameter.KEYWORD_ONLY) for p in parameters if not _is_positional(p)]
