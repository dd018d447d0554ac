"""`windlass reserve`: nodes kept for somebody, or for nobody, for a time to come."""

from __future__ import annotations

import time
from typing import Annotated, Any

import typer

from windlass.cli.completion import complete_reservation_names
from windlass.cli.errors import UsageError
from windlass.cli.exit_codes import ExitCode
from windlass.cli.option_values import parse_duration_option, parse_time_option
from windlass.cli.target import NamespaceOption, NoColorOption, OnOption, StateOption, controller_client, uses_color
from windlass.cli.terminal.formatting import format_time as clock
from windlass.cli.terminal.formatting import pluralize, shorten
from windlass.cli.terminal.output import Column, Format, FormatOption, Listing, listed, structured

Row = dict[str, Any]


def _whom(row: Row) -> str:
    names = [f"queue {queue}" for queue in row["queues"]] + [f"user {user}" for user in row["users"]]
    return ", ".join(names) or "maintenance"


_RESERVATIONS = Listing(
    (
        Column("RESERVATION", lambda row: row["name"]),
        Column("STATE", lambda row: row["state"]),
        Column("FROM", lambda row: clock(row["start"])),
        Column("UNTIL", lambda row: clock(row["end"])),
        Column("NODES", lambda row: shorten(row["nodes"])),
        Column("FOR", _whom),
        Column("IN THE WAY", lambda row: shorten([run["id"] for run in row["running"]])),
        Column("MADE BY", lambda row: row["source"], wide=True),
        Column("REASON", lambda row: row["reason"], wide=True),
    ),
    key="name",
    empty="nothing is reserved",
)


def reserve(
    name: Annotated[
        str,
        typer.Argument(
            metavar="[NAME]", help="What to call it; without one: list them.", autocompletion=complete_reservation_names
        ),
    ] = "",
    nodes: Annotated[str, typer.Option("--nodes", metavar="n1,n2", help="These nodes, whole.")] = "",
    count: Annotated[int, typer.Option("-N", min=0, help="Or so many nodes, chosen where the fewest run then.")] = 0,
    gpus: Annotated[int, typer.Option("-G", "--gpus", min=0, help="With -N: nodes with at least so many GPUs.")] = 0,
    begin: Annotated[
        str, typer.Option("--from", metavar="WHEN", help="now, 22:00, 2026-11-22T08:00, or 2h from now.")
    ] = "now",
    length: Annotated[str, typer.Option("--for", metavar="DURATION", help="How long: 2h, 90m, …")] = "",
    until: Annotated[str, typer.Option("--until", metavar="WHEN", help="Or until when.")] = "",
    queue: Annotated[list[str] | None, typer.Option("--queue", help="For jobs of this queue; several: repeat.")] = None,
    user: Annotated[list[str] | None, typer.Option("--user", help="For jobs of this user; several: repeat.")] = None,
    maintenance: Annotated[bool, typer.Option("--maintenance", help="For nobody.")] = False,
    reason: Annotated[str, typer.Option("--reason", help="Why, for people.")] = "",
    delete: Annotated[bool, typer.Option("--delete", help="Give the nodes of NAME back.")] = False,
    output: FormatOption = Format.TABLE,
    on: OnOption = "",
    namespace: NamespaceOption = "",
    state: StateOption = None,
    no_color: NoColorOption = False,
) -> int:
    """Reserve nodes for a queue, for users or for maintenance; list what is reserved; delete a reservation.

    Jobs that would still run when it begins do not start on its nodes any more. What runs there already goes on: the
    answer names those that would still run then.
    """
    client = controller_client(on, namespace, state)
    if not name:
        listed(_RESERVATIONS, client.reservations, output, again=False, paint=uses_color(no_color=no_color))
        return ExitCode.OK
    if delete:
        client.unreserve(name)
        print(f"reservation {name} is deleted")
        return ExitCode.OK
    start, end = _span(begin, length, until)
    made = client.reserve(
        name=name,
        start=start,
        end=end,
        nodes=[word for word in nodes.split(",") if word],
        count=count,
        gpus=gpus,
        queues=queue or [],
        users=user or [],
        maintenance=maintenance,
        reason=reason,
    )
    if not structured(made, output, made["name"]):
        _tell(made)
    return ExitCode.OK


def _span(begin: str, length: str, until: str) -> tuple[int, int]:
    """From when until when, in ms."""
    if bool(length) == bool(until):
        raise UsageError("it must end some time\nsay either --for 2h or --until 18:00")
    start = parse_time_option("--from", begin, int(time.time() * 1000))
    return start, start + parse_duration_option("--for", length) if length else parse_time_option(
        "--until", until, start
    )


def _tell(made: Row) -> None:
    where = f"{pluralize(len(made['nodes']), 'node')} ({shorten(made['nodes'])})"
    print(f"reserved {where} from {clock(made['start'])} until {clock(made['end'])} for {_whom(made)}: {made['name']}")
    for run in made["running"]:
        ends = f"may run until {clock(run['ends_by'])}" if run["ends_by"] else "has no time limit"
        print(f"  {run['id']} is on {shorten(run['nodes'])} and {ends}")
