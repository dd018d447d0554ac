"""`windlass share`: what every queue should have, and has."""

from __future__ import annotations

import sys
from typing import Annotated, Any

import typer

from windlass.cli.exit_codes import ExitCode
from windlass.cli.target import NamespaceOption, NoColorOption, OnOption, StateOption, controller_client, uses_color
from windlass.cli.terminal.formatting import format_amount, format_resources
from windlass.cli.terminal.output import Column, Format, FormatOption, Listing, WatchOption, paged, show

Row = dict[str, Any]
_FIRST = ("gpu", "cpu", "memory")


def share(
    resource: Annotated[
        str,
        typer.Option("--resource", help="What the columns count: gpu, cpu, memory, … Default: gpu if any queue has."),
    ] = "",
    output: FormatOption = Format.TABLE,
    watch: WatchOption = False,
    on: OnOption = "",
    namespace: NamespaceOption = "",
    state: StateOption = None,
    no_color: NoColorOption = False,
) -> int:
    """Fair shares: what every queue should hold now, what it holds, borrows and lends, and who of it is next.

    TARGET is the queue's part by its weight, no more than it asks for. SHARE is what it has, its decayed past use
    included, as a part of the cluster for each unit of weight: the lowest among siblings goes first.
    """
    client = controller_client(on, namespace, state)
    paint = uses_color(no_color=no_color)

    def tell(answer: Row) -> None:
        rows = answer["queues"]
        show(_listing(resource or _counted(rows)), rows, output, paint=paint)
        for warning in answer["warnings"]:
            print(warning, file=sys.stderr)

    paged(client.shares, tell, again=watch)
    return ExitCode.OK


def _counted(rows: list[Row]) -> str:
    """The first of the usual resources that any queue has or wants."""
    present = {name for row in rows for part in ("quota", "target", "held", "past") for name in row[part]}
    return next((name for name in _FIRST if name in present), _FIRST[0])


def _listing(resource: str) -> Listing:
    def of(part: str) -> Column:
        return Column(part.upper(), lambda row: format_amount(resource, row[part].get(resource, 0)), right=True)

    return Listing(
        (
            Column("QUEUE", lambda row: f"{'· ' * row['depth']}{row['queue']}"),
            Column("WEIGHT", lambda row: str(row["weight"]), right=True),
            Column(f"{resource.upper()} QUOTA", lambda row: _quota(row, resource), right=True),
            *(of(part) for part in ("target", "held", "borrowed", "lent", "past")),
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
    return format_amount(resource, row["quota"][resource]) if resource in row["quota"] else "-"
