"""Options of a `%%windlass` cell: those of `windlass run`, a target, and a name for the result."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from typing import Annotated, Any

import typer

from windlass.cli.options import takes_job_options
from windlass.cli.target_options import NamespaceOption, OnOption
from windlass.client.errors import InvalidRequestError, public_errors
from windlass.jobs.description.options import RunOptions, read_options

_READ = ("nodes", "topology")
"""Options whose text differs from that of the job file's field."""
_JOB_NAME = "cell"


@dataclass(frozen=True, slots=True)
class CellOptions:
    """`fields`: of the job, as in job files. `result`: the variable that gets the value of the last line, or ""."""

    fields: Mapping[str, Any]
    target: str
    namespace: str
    result: str


def read_cell_options(line: str) -> CellOptions | None:
    """Returns the options of a line; None after --help, which prints them. Raises InvalidRequestError."""
    try:
        words = shlex.split(line)
    except ValueError as error:
        raise InvalidRequestError(f"the options of the cell: {error}", "close the quotation marks") from None
    app = typer.Typer(add_completion=False, rich_markup_mode=None)
    app.command()(_cell)
    try:
        found = typer.main.get_command(app).main(args=words, prog_name="%%windlass", standalone_mode=False)
    except Exception as error:
        if not hasattr(error, "format_message"):  # click's errors have it
            raise
        raise InvalidRequestError(str(error.format_message()), "%%windlass --help lists the options") from None
    return found if isinstance(found, CellOptions) else None


@takes_job_options
def _cell(
    options: RunOptions,
    result: Annotated[str, typer.Option("--result", metavar="NAME", help="Variable for the value of rank 0.")] = "",
    on: OnOption = "",
    namespace: NamespaceOption = "",
) -> CellOptions:
    """Run a cell on the ranks of a job. The value of its last line returns from rank 0, also as `_`."""
    if result and not result.isidentifier():
        raise InvalidRequestError(f"{result[:40]!r} is no name of a variable", "write --result NAME")
    return CellOptions(_fields(replace(options, name=options.name or _JOB_NAME)), on, namespace, result)


def _fields(options: RunOptions) -> dict[str, Any]:
    """Returns the fields of a job file that say the same as the options. Raises InvalidRequestError."""
    with public_errors():
        read = read_options(options)
    given = {each.name: getattr(options, each.name) for each in fields(options)}
    scalars = {name: value for name, value in given.items() if value not in (None, ()) and name not in _READ}
    return {name: scalars[name] if isinstance(scalars.get(name), (str, int, bool)) else read[name] for name in read}
