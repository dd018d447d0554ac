"""The verbs `squeue`, `sinfo` and `sacct`: listings with the options and formats of Slurm's commands."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Collection, Iterable, Sequence
from datetime import datetime
from typing import Annotated, Any

import typer

from windlass.cli.errors import UsageError
from windlass.cli.exit_codes import ExitCode
from windlass.cli.slurm import accounting_fields, job_fields, node_fields
from windlass.cli.slurm.field_values import ENDED, LETTERS, job_state
from windlass.cli.slurm.format_text import format_rows, parse_format
from windlass.cli.slurm.partitions import partition_names, read_partitions
from windlass.cli.slurm.queue_layout import read_layout
from windlass.cli.target import controller_client, own_name, record_source, warn_if_offline
from windlass.cli.target_options import OnOption, StateOption
from windlass.jobs.syntax.time_words import parse_time
from windlass.server.errors import ApiError, ErrorCode

MAX_JOBS = 1_000_000
"""Jobs of one listing: all of them."""
Row = dict[str, Any]

NoHeader = Annotated[bool, typer.Option("-h", "--noheader", help="Print no header.")]
JobsOption = Annotated[str, typer.Option("-j", "--jobs", help="Only these jobs: ids, numbers or arrays, by commas.")]
UsersOption = Annotated[str, typer.Option("-u", "--user", help="Only jobs of these users.")]
Me = Annotated[bool, typer.Option("--me", help="Only your own jobs.")]
Partitions = Annotated[str, typer.Option("-p", "--partition", help="Only jobs of these queues.")]
States = Annotated[str, typer.Option("-t", "--states", help="Only these states: PD, R, PENDING, …; all.")]
Names = Annotated[str, typer.Option("-n", "--name", help="Only jobs of these names.")]
FormatText = Annotated[str, typer.Option("-o", "--format", help="Fields, such as '%.18i %.9P %.2t %R'.")]

LongNamespace = Annotated[
    str, typer.Option("--namespace", metavar="NAMESPACE", help="On Kubernetes; default: that of the context.")
]
"""Without its short name, which has another meaning in Slurm's commands."""


def squeue(
    user: UsersOption = "",
    me: Me = False,
    jobs: JobsOption = "",
    name: Names = "",
    partition: Partitions = "",
    states: States = "",
    form: FormatText = "",
    names: Annotated[str, typer.Option("-O", "--Format", help="Fields by name: jobid:.18,name:10,…")] = "",
    order: Annotated[str, typer.Option("-S", "--sort", help="Order by letters of fields, such as P,-p.")] = "",
    long: Annotated[bool, typer.Option("-l", "--long", help="With states in words and time limits.")] = False,
    _each_task: Annotated[bool, typer.Option("-r", "--array", help="A line for each task, as always.")] = False,
    start: Annotated[bool, typer.Option("--start", help="Expected starts of pending jobs.")] = False,
    iterate: Annotated[int | None, typer.Option("-i", "--iterate", min=1, help="Repeat every so many seconds.")] = None,
    no_header: NoHeader = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
    on: OnOption = "",
    namespace: LongNamespace = "",
    state: StateOption = None,
) -> int:
    """List jobs as Slurm's squeue does: those that wait or run, and ended ones by -t."""
    source = record_source(on, namespace, state)
    warn_if_offline(source)
    wanted = parse_states("PD" if start and not states else states)
    filters = {"user": own_name(on, namespace) if me else user, "name": name, "queue": partition}
    filters |= {"all": "True" if wanted & ENDED else ""}
    default = job_fields.LONG_FORMAT if long else job_fields.START_FORMAT if start else job_fields.DEFAULT_FORMAT
    layout = read_layout(form, names, order, default)
    has_time = not no_header and (iterate or (long and not form and not names))
    while True:
        fields = ",".join(("id", "number", "array", *job_fields.JSON_FIELDS)) if as_json else layout.fields
        found = source.jobs(limit=MAX_JOBS, fields=fields, **filters)
        rows = layout.sorted_rows(select_jobs(found, jobs, wanted))
        if as_json:
            print(json.dumps({"jobs": [job_fields.job_json(row) for row in rows]}, indent=2))
        else:
            _print_lines([time.strftime("%a %b %d %H:%M:%S %Y")] if has_time else ())
            _print_lines(format_rows(layout.parts, rows, header=not no_header))
        if not iterate:
            return ExitCode.OK
        sys.stdout.flush()
        time.sleep(iterate)


def _print_lines(lines: Iterable[str]) -> None:
    """Prints the lines; nothing, not even an empty line, if there are none."""
    print("".join(f"{line}\n" for line in lines), end="")


def parse_states(text: str) -> frozenset[str]:
    """States of -t by their names; empty if none are named. Raises UsageError."""
    by_letters = {letters: name for name, letters in LETTERS.items()}
    wanted = set[str]()
    for word in text.upper().split(",") if text else ():
        if word == "ALL":
            return frozenset(LETTERS)
        if (name := by_letters.get(word, word)) not in LETTERS:
            raise UsageError(f"--states: there is no state {word[:40]!r}\nstates are {', '.join(LETTERS)}")
        wanted.add(name)
    return frozenset(wanted)


def select_jobs(found: Sequence[Row], jobs: str, states: Collection[str]) -> Sequence[Row]:
    """The jobs of -j: by id, number, array or member of an array. Raises ApiError if a single one is unknown.

    `states`: accepted ones; any if it is empty.
    """
    rows = [row for row in found if job_state(row) in states] if states else found
    words = [word for word in jobs.split(",") if word]
    if not words:
        return rows
    chosen = [row for row in rows if any(is_named(row, word) for word in words)]
    if not chosen and len(words) == 1:
        raise ApiError(
            ErrorCode.NO_SUCH_JOB, f"Invalid job id specified: {words[0][:60]}", "windlass sacct lists all jobs"
        )
    return chosen


def is_named(row: Row, word: str) -> bool:
    """Tells whether a word is a name of a job; see `names_of`."""
    return word in names_of(row)


def names_of(row: Row) -> set[str]:
    """The id of a job, its number, its array, and number and index of a task: "train-7_2", "7", "train-7", "7_2"."""
    names = {row["id"], str(row["number"])}
    if row["array"]:
        names |= {row["array"], f"{row['number']}_{row['id'].rpartition('_')[2]}"}
    return names


def sinfo(
    nodes: Annotated[str, typer.Option("-n", "--nodes", help="Only these nodes, such as n[1-4].")] = "",
    each: Annotated[bool, typer.Option("-N", "--Node", help="A line for each node.")] = False,
    states: Annotated[str, typer.Option("-t", "--states", help="Only these states, such as idle,mix.")] = "",
    partition: Annotated[str, typer.Option("-p", "--partition", help="Only these queues.")] = "",
    summarize: Annotated[bool, typer.Option("-s", "--summarize", help="A line for each queue.")] = False,
    reasons: Annotated[bool, typer.Option("-R", "--list-reasons", help="Why nodes are not available.")] = False,
    form: FormatText = "",
    long: Annotated[bool, typer.Option("-l", "--long", help="With CPUs and GPUs.")] = False,
    no_header: NoHeader = False,
    on: OnOption = "",
    namespace: LongNamespace = "",
    state: StateOption = None,
) -> int:
    """List nodes by their states as Slurm's sinfo does. Each queue is a partition of all nodes."""
    from windlass.jobs.slurm.hostlist import expand_hosts  # noqa: PLC0415 - rarely needed

    client = controller_client(on, namespace, state)
    names = set(expand_hosts(nodes)) if nodes else None
    found = [node for node in client.nodes() if names is None or node["name"] in names]
    partitions = partition_names(read_partitions(client), partition)
    if reasons:
        found = [node for node in found if node_fields.node_reason(node) != "none"]
        rows = node_fields.node_groups(found, partitions[:1], node_fields.node_reason)
    elif summarize:
        rows = node_fields.node_groups(found, partitions, lambda _node: "")
    elif each:
        rows = node_fields.node_groups(found, partitions, lambda node: node["name"], by_node=True)
    else:
        rows = node_fields.node_groups(found, partitions, node_fields.node_state)
    wanted = set(states.lower().split(",")) if states else None
    titles = node_fields.FIELDS
    kept = [row for row in rows if wanted is None or not wanted.isdisjoint((row["state"], titles["t"].value(row)))]
    default = _node_format(each=each, long=long, summarize=summarize, reasons=reasons)
    _print_lines(format_rows(parse_format(form or default, titles), kept, header=not no_header))
    return ExitCode.OK


def _node_format(*, each: bool, long: bool, summarize: bool, reasons: bool) -> str:
    """The format of sinfo that its options select."""
    if reasons:
        return node_fields.REASON_FORMAT
    if summarize:
        return node_fields.SUMMARY_FORMAT
    if each:
        return node_fields.LONG_NODE_FORMAT if long else node_fields.NODE_FORMAT
    return node_fields.LONG_FORMAT if long else node_fields.DEFAULT_FORMAT


def sacct(
    user: UsersOption = "",
    jobs: JobsOption = "",
    name: Annotated[str, typer.Option("--name", help="Only jobs of these names.")] = "",
    states: Annotated[str, typer.Option("-s", "--state", help="Only these states: CD, F, TO, …")] = "",
    start: Annotated[str, typer.Option("-S", "--starttime", help="Only jobs that had not ended by then.")] = "",
    end: Annotated[str, typer.Option("-E", "--endtime", help="Only jobs that were submitted by then.")] = "",
    form: Annotated[str, typer.Option("-o", "--format", help="Fields: JobID,State,Elapsed%12,…")] = "",
    brief: Annotated[bool, typer.Option("-b", "--brief", help="JobID, State and ExitCode.")] = False,
    units: Annotated[str, typer.Option("--units", help="Unit of memory: K, M, G, T or P.")] = "",
    no_header: Annotated[bool, typer.Option("-n", "--noheader", help="Print no header.")] = False,
    parsable: Annotated[bool, typer.Option("-p", "--parsable", help="Values with | behind each.")] = False,
    joined: Annotated[bool, typer.Option("-P", "--parsable2", help="Values joined by |.")] = False,
    delimiter: Annotated[str, typer.Option("--delimiter", help="Other text than |, for -p and -P.")] = "|",
    _allocations: Annotated[bool, typer.Option("-X", "--allocations", help="Jobs without steps, as always.")] = False,
    _all_users: Annotated[bool, typer.Option("-a", "--allusers", help="Jobs of all users, as always.")] = False,
    help_format: Annotated[bool, typer.Option("-e", "--helpformat", help="Print the names of fields.")] = False,
    limit: Annotated[int, typer.Option("--limit", min=1, help="Maximum number of rows.")] = MAX_JOBS,
    on: OnOption = "",
    namespace: LongNamespace = "",
    folder: StateOption = None,
) -> int:
    """List jobs, ended ones too, as Slurm's sacct does. Needs no daemon."""
    if help_format:
        print(*(field.title for field in accounting_fields.FIELDS.values()))
        return ExitCode.OK
    default = accounting_fields.BRIEF_FIELDS if brief else accounting_fields.DEFAULT_FIELDS
    table = accounting_fields.read_table(
        form or default, units, delimiter if parsable or joined else "", ends=parsable and not joined
    )
    since, until = _time("--starttime", start), _time("--endtime", end)
    source = record_source(on, namespace, folder)
    wanted = parse_states(states)
    placed = "1" if table.has_node_list else ""
    found = source.jobs(all=True, user=user, name=name, limit=limit, fields=table.fields, last_nodes=placed)
    rows = [row for row in select_jobs(found, jobs, wanted) if _was_known(row, since, until)]
    rows.sort(key=lambda row: (row["number"], row["index"] or 0))
    _print_lines(table.lines(rows, header=not no_header))
    return ExitCode.OK


def _time(option: str, text: str) -> int | None:
    """The time of an option in ms; None without one. Raises UsageError."""
    try:
        return parse_time(text, datetime.now()) if text else None  # noqa: DTZ005 - local time, as Slurm reads it
    except ValueError as error:
        raise UsageError(f"{option} {error}") from None


def _was_known(row: Row, since: int | None, until: int | None) -> bool:
    """Whether a job waited, ran or ended between two times."""
    is_after = since is None or row["finished_at"] is None or row["finished_at"] >= since
    return is_after and (until is None or row["created_at"] <= until)
