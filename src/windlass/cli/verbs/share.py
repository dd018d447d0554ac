"""`windlass share`: prints the fair share and the usage of every queue."""

from __future__ import annotations

import sys
from typing import Annotated, Any

import typer

from windlass.cli.exit_codes import ExitCode
from windlass.cli.target import controller_client, uses_color
from windlass.cli.target_options import NamespaceOption, NoColorOption, OnOption, StateOption
from windlass.cli.terminal.formatting import format_resources
from windlass.cli.terminal.output import Column, Format, FormatOption, Listing, WatchOption, show, watch_value
from windlass.core.model.resources import format_readable

Row = dict[str, Any]
_DEFAULTS = ("gpu", "cpu", "memory")


def share(
    resource: Annotated[
        str,
        typer.Option("--resource", help="Resource of the columns: gpu, cpu, memory, … Default: gpu if used."),
    ] = "",
    output: FormatOption = Format.TABLE,
    watch: WatchOption = False,
    on: OnOption = "",
    namespace: NamespaceOption = "",
    state: StateOption = None,
    no_color: NoColorOption = False,
) -> int:
    """Fair shares: target and usage of every queue, what it borrows and lends, and its next job.

    TARGET is the queue's part by its weight, at most what it requests. SHARE is its usage, with decayed past usage, as
    a fraction of the cluster per unit of weight: among siblings, the lowest share goes first.
    """
    client = controller_client(on, namespace, state)
    paint = uses_color(no_color=no_color)

    def display(answer: Row) -> None:
        rows = answer["queues"]
        show(_listing(resource or _default_resource(rows)), rows, output, paint=paint)
        for warning in answer["warnings"]:
            print(warning, file=sys.stderr)

    watch_value(client.shares, display, again=watch)
    return ExitCode.OK


def _default_resource(rows: list[Row]) -> str:
    """Returns the first of gpu, cpu and memory that any queue has or requests."""
    present = {name for row in rows for part in ("quota", "target", "held", "past") for name in row[part]}
    return next((name for name in _DEFAULTS if name in present), _DEFAULTS[0])


def _listing(resource: str) -> Listing:
    def column(part: str) -> Column:
        return Column(part.upper(), lambda row: format_readable(resource, row[part].get(resource, 0)), right=True)

    return Listing(
        (
            Column("QUEUE", lambda row: f"{'· ' * row['depth']}{row['queue']}"),
            Column("WEIGHT", lambda row: str(row["weight"]), right=True),
            Column(f"{resource.upper()} QUOTA", lambda row: _quota(row, resource), right=True),
            *(column(part) for part in ("target", "held", "borrowed", "lent", "past")),
            Column("SHARE", lambda row: f"{row['share'] / 10_000:.1f} %", right=True),
            Column("RUN", lambda row: str(row["running"]), right=True),
            Column("WAIT", lambda row: str(row["waiting"]), right=True),
            Column("HOLDS", lambda row: format_resources(row["held"]), wide=True),
            Column("NEXT", lambda row: row["next"]),
        ),
        key="queue",
        empty="there are no queues",
    )


def _quota(row: Row, resource: str) -> str:
    return format_readable(resource, row["quota"][resource]) if resource in row["quota"] else "-"
