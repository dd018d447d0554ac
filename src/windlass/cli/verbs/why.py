"""`windlass why`: explains why a job, or each waiting job, waits, or would wait with another request."""

from __future__ import annotations

import io
from collections.abc import Callable, Container, Iterator
from contextlib import redirect_stdout
from typing import Annotated, Any

import typer

from windlass.cli.completion import complete_job_names
from windlass.cli.errors import UsageError
from windlass.cli.exit_codes import ExitCode
from windlass.cli.job_messages import wait_verdict_lines
from windlass.cli.schedules import schedule_lines
from windlass.cli.target import JobSource, job_controller, job_source, uses_color, warn_if_offline
from windlass.cli.target_options import NamespaceOption, NoColorOption, OnOption, StateOption
from windlass.cli.terminal.formatting import (
    format_duration,
    format_start,
    format_time,
    pluralize,
    reason_text,
    shorten,
)
from windlass.cli.terminal.output import (
    Column,
    Format,
    FormatOption,
    Listing,
    WatchOption,
    print_structured,
    show,
    watch_rows,
    watch_value,
)
from windlass.cli.training_progress import member_wait_line, restart_line
from windlass.cli.verbs.status import headline
from windlass.core.model.resources import format_readable

Json = dict[str, Any]
_NODES_SHOWN = 20
_AHEAD_SHOWN = 5
_MAX_CANDIDATES = 10
"""Maximum number of candidates of a role in an explanation; with as many, there may be more nodes."""

_ALL = Listing(
    (
        Column("JOB", lambda row: row["id"]),
        Column("QUEUE", lambda row: row["queue"]),
        Column("POS", lambda row: str(row["position"] or "-"), right=True),
        Column("STARTS", lambda row: format_start(row["eta"], row["certainty"])),
        Column("WOULD START NOW", lambda row: _first_change(row["would_start"])),
        Column("REASON", lambda row: row["reason"], wide=True),
        Column("WHY", lambda row: reason_text(row, token=False)),
    ),
    key="id",
    empty="no job waits",
)


def why(
    job: Annotated[
        str,
        typer.Argument(
            metavar="[JOB]", help="A name or an id; without one: all that wait.", autocompletion=complete_job_names
        ),
    ] = "",
    what_if: Annotated[
        str,
        typer.Option("--what-if", metavar="'gpus=4 time=1h'", help="Explain the job as if it had requested this."),
    ] = "",
    output: FormatOption = Format.TABLE,
    watch: WatchOption = False,
    on: OnOption = "",
    namespace: NamespaceOption = "",
    state: StateOption = None,
    no_color: NoColorOption = False,
) -> int:
    """Explain why a job waits: what is missing by node, which jobs hold it until when, what would start now instead.

    Without a job: a line for each waiting job. "by 14:20" is a bound: the job starts then at the latest unless another
    job is put ahead of it. "~ 14:20" is an estimate: the start if all jobs use their walltime in full. "from 14:20" is
    the begin time of a job, before which it does not start.
    """
    if what_if and not job:
        raise UsageError("--what-if is about one job; name it")
    paint = uses_color(no_color=no_color)
    source: JobSource = job_controller(on, namespace, state) if what_if else job_source(on, namespace, state)
    warn_if_offline(source)
    if not job:
        watch_rows(_ALL, lambda: source.explain_all()["jobs"], output, again=watch, paint=paint)
        return ExitCode.OK

    def display(answer: Json) -> None:
        if schedule := answer.get("schedule"):
            if not print_structured(schedule, output, schedule["name"]):
                print(*schedule_lines(schedule), sep="\n")
            return
        if not print_structured(answer, output, answer["job"]["id"]):
            _print_answer(answer, what_if, paint=paint)

    watch_value(lambda: source.explain(job, what_if), display, again=watch)
    return ExitCode.OK


def explanation_text(answer: Json) -> str:
    """Returns what `windlass why JOB` prints, without colors."""
    text = io.StringIO()
    with redirect_stdout(text):
        _print_answer(answer, "", paint=False)
    return text.getvalue().rstrip()


def _print_answer(answer: Json, what_if: str, *, paint: bool) -> None:
    found = answer.get("explanation")
    if not what_if:
        print(headline(answer["job"]))
        for line in wait_verdict_lines(answer["job"]):
            print(line)
        if missing := answer.get("missing"):
            print(f"lacks replicas that it requests: {missing['message']} ({missing['reason']})")
        if members := answer.get("members"):
            print(member_wait_line(members))
        if restarts := answer.get("container_restarts"):
            print(restart_line(restarts))
    elif found:
        print(_hypothetical_line(answer["job"]["id"], what_if, found["verdict"]))
        if not found["verdict"]:
            for line in _placement_lines(found):
                print(line)
            return  # the free amounts of the table are those after the job has its nodes
    if found:
        _print_explanation(found, answer["now"], paint=paint)


def _hypothetical_line(job_id: str, what_if: str, verdict: Json | None) -> str:
    outcome = f"would wait: {verdict['message']} ({verdict['reason']})" if verdict else "would start now"
    return f"{job_id} with {what_if} {outcome}"


def _placement_lines(found: Json) -> Iterator[str]:
    """Yields the nodes that the job would get, role by role, and the criterion that decided for them."""
    for choice in found.get("chosen", ()):
        of_role = f" ({choice['role']}):" if len(found["chosen"]) > 1 else ""
        nodes = [f"{node} ×{replicas}" if replicas > 1 else node for node, replicas in choice["nodes"]]
        taken = {node for node, _ in choice["nodes"]}
        yield f"on{of_role} {shorten(nodes, _NODES_SHOWN)}{_criterion(taken, choice['candidates'])}"


def _criterion(taken: Container[str], candidates: list[Json]) -> str:
    """Returns why the first remaining candidate ranks after the chosen ones; candidates are compared pairwise."""
    left = next((place for place, each in enumerate(candidates) if each["node"] not in taken), None)
    if left is None:
        return "; no other node fits" if 0 < len(candidates) < _MAX_CANDIDATES else ""
    if not left:
        return ""
    better, other = candidates[left - 1 : left + 1]
    decided = {
        "replicas": f"takes fewer replicas than {better['node']}",
        "score": f"has the score {other['score']}, {better['node']} {better['score']}; the lowest is taken",
        "row": f"is equal to {better['node']} and comes after it by topology and name",
    }.get(other["decided_by"], f"has more {other['decided_by']} free than {better['node']}; the tightest fit is taken")
    return f"; {other['node']} {decided}"


def _first_change(changes: list[str] | None) -> str:
    """Returns the first change of the request with which the job would start now."""
    if changes is None:
        return "?"
    return f"with {changes[0]}" if changes else "-"


def _print_explanation(found: Json, now: int, *, paint: bool) -> None:
    unit = found["resource"]
    for line in _start_lines(found, now):
        print(line)
    _print_nodes(found, unit, paint=paint)
    holders = [_holder_line(each, unit, now) for each in found["frees"]]
    if holders:
        print("held by:", *holders, sep="\n  ")
    if found["would_start"]:
        print("would start now:", " | ".join(each["change"] for each in found["would_start"]))


_PROVISOS = {"bound": "unless a job is put ahead of it", "earliest": "its begin time, if nodes are free then"}
"""Certainty of a start → the condition under which it holds; of any other, that of an estimate."""


def _start_lines(found: Json, now: int) -> Iterator[str]:
    """Yields the jobs ahead, limits of the start and the expected start."""
    if found["ahead"]:
        yield f"queued behind: {shorten(found['ahead'], _AHEAD_SHOWN)}"
    at, sure = found["expected"], (found["verdict"] or {"certainty": ""})["certainty"]
    if found["not_before"] and found["not_before"] != at:
        yield f"not before: {format_time(found['not_before'], now)}"
    if never := found.get("never"):
        yield never
    if fixed_size := found.get("keeps_its_size"):
        yield f"size: {fixed_size}"
    if found["verdict"] and at is not None:
        proviso = _PROVISOS.get(sure, "if all jobs use their walltime in full")
        yield f"starts: {format_start(at, sure, now)} (in {format_duration(at - now)}), {proviso}"


def _print_nodes(found: Json, unit: str, *, paint: bool) -> None:
    rows = sorted(found["nodes"], key=lambda node: (bool(node["cause"]), -node["fits"], -node["free"]))
    cells: dict[str, Callable[[Json], str]] = {
        f"FREE {unit.upper()}".strip(): lambda row: (
            f"{format_readable(unit, row['free'])}/{format_readable(unit, row['capacity'])}"
        ),
        "FITS": lambda row: pluralize(row["fits"], "replica"),
        "REASON": lambda row: row["cause"] or (f"held for {row['held_for']}" if row["held_for"] else ""),
    }
    columns = (Column("NODE", lambda row: row["node"]), *(Column(title, cell) for title, cell in cells.items()))
    show(Listing(columns, "node", "there are no nodes"), rows[:_NODES_SHOWN], Format.TABLE, paint=paint)
    if len(rows) > _NODES_SHOWN:
        print(f"and {len(rows) - _NODES_SHOWN} more nodes (-o json has all)")


def _holder_line(each: Json, unit: str, now: int) -> str:
    """Returns the job that holds nodes, what it holds, and when it ends at the latest."""
    ends = f"by {format_time(each['ends_by'], now)}" if each["ends_by"] else "has no time limit"
    where = ", ".join(f"{format_readable(unit, held)} on {node}" for node, held in each["nodes"][:4])
    more = f" and {len(each['nodes']) - 4} more nodes" if len(each["nodes"]) > 4 else ""
    return f"{each['job_id']}: {format_readable(unit, each['amount'])} {unit} ({where}{more}), {ends}"
