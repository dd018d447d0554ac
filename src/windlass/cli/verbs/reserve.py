"""`windlass reserve`: reserves nodes for queues, users or maintenance, for a time span."""

from __future__ import annotations

import time
from typing import Annotated, Any

import typer

from windlass.cli.completion import complete_reservation_names
from windlass.cli.errors import UsageError
from windlass.cli.exit_codes import ExitCode
from windlass.cli.option_values import parse_duration_option, parse_time_option
from windlass.cli.target import controller_client, uses_color
from windlass.cli.target_options import NamespaceOption, NoColorOption, OnOption, StateOption
from windlass.cli.terminal.formatting import format_time as clock
from windlass.cli.terminal.formatting import pluralize, shorten
from windlass.cli.terminal.output import Column, Format, FormatOption, Listing, print_structured, watch_rows

Row = dict[str, Any]


def _beneficiaries(row: Row) -> str:
    names = [f"queue {queue}" for queue in row["queues"]] + [f"user {user}" for user in row["users"]]
    return ", ".join(names) or "maintenance"


_RESERVATIONS = Listing(
    (
        Column("RESERVATION", lambda row: row["name"]),
        Column("STATE", lambda row: row["state"]),
        Column("FROM", lambda row: clock(row["start"])),
        Column("UNTIL", lambda row: clock(row["end"])),
        Column("NODES", lambda row: shorten(row["nodes"])),
        Column("FOR", _beneficiaries),
        Column("CONFLICTS", lambda row: shorten([run["id"] for run in row["running"]])),
        Column("SOURCE", lambda row: row["source"], wide=True),
        Column("REASON", lambda row: row["reason"], wide=True),
    ),
    key="name",
    empty="nothing is reserved",
)


def reserve(
    name: Annotated[
        str,
        typer.Argument(
            metavar="[NAME]",
            help="Name of the reservation; without one: list them.",
            autocompletion=complete_reservation_names,
        ),
    ] = "",
    nodes: Annotated[str, typer.Option("--nodes", metavar="n1,n2", help="These nodes, whole.")] = "",
    count: Annotated[
        int, typer.Option("-N", min=0, help="Or a number of nodes, chosen where the fewest jobs run.")
    ] = 0,
    gpus: Annotated[int, typer.Option("-G", "--gpus", min=0, help="With -N: minimum number of GPUs per node.")] = 0,
    begin: Annotated[
        str, typer.Option("--from", metavar="WHEN", help="now, 22:00, 2026-11-22T08:00, or 2h from now.")
    ] = "now",
    length: Annotated[str, typer.Option("--for", metavar="DURATION", help="Duration: 2h, 90m, …")] = "",
    until: Annotated[str, typer.Option("--until", metavar="WHEN", help="Or the end.")] = "",
    queue: Annotated[list[str] | None, typer.Option("--queue", help="For jobs of this queue; may be repeated.")] = None,
    user: Annotated[list[str] | None, typer.Option("--user", help="For jobs of this user; may be repeated.")] = None,
    maintenance: Annotated[bool, typer.Option("--maintenance", help="For no job.")] = False,
    reason: Annotated[str, typer.Option("--reason", help="Reason, for people.")] = "",
    delete: Annotated[bool, typer.Option("--delete", help="Delete the reservation NAME.")] = False,
    output: FormatOption = Format.TABLE,
    on: OnOption = "",
    namespace: NamespaceOption = "",
    state: StateOption = None,
    no_color: NoColorOption = False,
) -> int:
    """Reserve nodes for a queue, for users or for maintenance; list or delete reservations.

    Jobs that would still run when it begins no longer start on its nodes. Jobs that run there already keep running; the
    answer names those that may still run then.
    """
    client = controller_client(on, namespace, state)
    if not name:
        watch_rows(_RESERVATIONS, client.reservations, output, again=False, paint=uses_color(no_color=no_color))
        return ExitCode.OK
    if delete:
        client.unreserve(name)
        print(f"reservation {name} is deleted")
        return ExitCode.OK
    start, end = _time_span(begin, length, until)
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
    if not print_structured(made, output, made["name"]):
        _print_reservation(made)
    return ExitCode.OK


def _time_span(begin: str, length: str, until: str) -> tuple[int, int]:
    """Returns start and end in ms. Raises UsageError unless exactly one of --for and --until is given."""
    if bool(length) == bool(until):
        raise UsageError("a reservation needs an end\nadd either --for 2h or --until 18:00")
    start = parse_time_option("--from", begin, int(time.time() * 1000))
    return start, start + parse_duration_option("--for", length) if length else parse_time_option(
        "--until", until, start
    )


def _print_reservation(made: Row) -> None:
    where = f"{pluralize(len(made['nodes']), 'node')} ({shorten(made['nodes'])})"
    when = f"from {clock(made['start'])} until {clock(made['end'])}"
    print(f"reserved {where} {when} for {_beneficiaries(made)}: {made['name']}")
    for run in made["running"]:
        ends = f"may run until {clock(run['ends_by'])}" if run["ends_by"] else "has no time limit"
        print(f"  {run['id']} is on {shorten(run['nodes'])} and {ends}")
