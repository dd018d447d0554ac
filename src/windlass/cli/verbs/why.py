"""`windlass why`: what keeps a job waiting, or all that wait; and what if it had asked for something else."""

from __future__ import annotations

from collections.abc import Callable, Container, Iterator
from typing import Annotated, Any

import typer

from windlass.cli.completion import complete_job_names
from windlass.cli.errors import UsageError
from windlass.cli.exit_codes import ExitCode
from windlass.cli.target import (
    NamespaceOption,
    NoColorOption,
    OnOption,
    RecordSource,
    StateOption,
    controller_client,
    record_source,
    uses_color,
    warn_if_offline,
)
from windlass.cli.terminal.formatting import (
    format_amount,
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
    listed,
    paged,
    show,
    structured,
)
from windlass.cli.verbs.status import headline

Json = dict[str, Any]
_NODES_SHOWN = 20
_AHEAD_SHOWN = 5
_CANDIDATES_TOLD = 10
"""Of a role, by an explanation, at most: of so many it is not known that they are all."""

_ALL = Listing(
    (
        Column("JOB", lambda row: row["id"]),
        Column("QUEUE", lambda row: row["queue"]),
        Column("POS", lambda row: str(row["position"] or "-"), right=True),
        Column("STARTS", lambda row: format_start(row["eta"], row["sure"])),
        Column("WOULD START NOW", lambda row: _instead(row["would_start"])),
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
        typer.Option("--what-if", metavar="'gpus=4 time=1h'", help="As if the job had asked for that instead."),
    ] = "",
    output: FormatOption = Format.TABLE,
    watch: WatchOption = False,
    on: OnOption = "",
    namespace: NamespaceOption = "",
    state: StateOption = None,
    no_color: NoColorOption = False,
) -> int:
    """Why a job waits: what is missing, node by node, who frees it and when, and what would start now instead.

    Without a job: a line for each that waits. "by 14:20" is a bound: it starts then at the latest if nothing comes in
    ahead of it. "~ 14:20" is expected: what comes out if everything uses its walltime in full.
    """
    if what_if and not job:
        raise UsageError("--what-if is about one job; name it")
    paint = uses_color(no_color=no_color)
    asked: RecordSource = controller_client(on, namespace, state) if what_if else record_source(on, namespace, state)
    warn_if_offline(asked)
    if not job:
        listed(_ALL, lambda: asked.why_all()["jobs"], output, again=watch, paint=paint)
        return ExitCode.OK

    def tell(answer: Json) -> None:
        if not structured(answer, output, answer["job"]["id"]):
            _tell(answer, what_if, paint=paint)

    paged(lambda: asked.why(job, what_if), tell, again=watch)
    return ExitCode.OK


def _tell(answer: Json, what_if: str, *, paint: bool) -> None:
    found = answer.get("explanation")
    if not what_if:
        print(headline(answer["job"]))
    elif found:
        print(_supposedly(answer["job"]["id"], what_if, found["verdict"]))
        if not found["verdict"]:
            for line in _chosen(found):
                print(line)
            return  # what is free in the table is free once the job has its nodes: nothing that it waits for
    if found:
        _explain(found, answer["now"], paint=paint)


def _supposedly(job_id: str, what_if: str, verdict: Json | None) -> str:
    told = f"would wait: {verdict['message']} ({verdict['reason']})" if verdict else "would start now"
    return f"{job_id} with {what_if} {told}"


def _chosen(found: Json) -> Iterator[str]:
    """The nodes that it would get, role by role, and what decided for them."""
    for choice in found.get("chosen", ()):
        of_role = f" ({choice['role']}):" if len(found["chosen"]) > 1 else ""
        nodes = [f"{node} ×{replicas}" if replicas > 1 else node for node, replicas in choice["nodes"]]
        taken = {node for node, _ in choice["nodes"]}
        yield f"on{of_role} {shorten(nodes, _NODES_SHOWN)}{_because(taken, choice['candidates'])}"


def _because(taken: Container[str], candidates: list[Json]) -> str:
    """Why the first node that is left comes after those that are taken; each candidate tells of the one before it."""
    left = next((place for place, each in enumerate(candidates) if each["node"] not in taken), None)
    if left is None:
        return "; no other node would do" if 0 < len(candidates) < _CANDIDATES_TOLD else ""
    if not left:
        return ""
    better, other = candidates[left - 1 : left + 1]
    decided = {
        "replicas": f"takes fewer replicas than {better['node']}",
        "score": f"has the score {other['score']}, {better['node']} {better['score']}; the least is taken",
        "row": f"is as good as {better['node']}, and comes after it by place and name",
    }.get(other["decided_by"], f"has more {other['decided_by']} free than {better['node']}; the tightest is taken")
    return f"; {other['node']} {decided}"


def _instead(changes: list[str] | None) -> str:
    """The first change that would let it start."""
    if changes is None:
        return "?"
    return f"with {changes[0]}" if changes else "-"


def _explain(found: Json, now: int, *, paint: bool) -> None:
    unit = found["resource"]
    for line in _times(found, now):
        print(line)
    _node_table(found, unit, paint=paint)
    frees = [_freeing(each, unit, now) for each in found["frees"]]
    if frees:
        print("frees:", *frees, sep="\n  ")
    if found["would_start"]:
        print("would start now:", " | ".join(each["change"] for each in found["would_start"]))


def _times(found: Json, now: int) -> Iterator[str]:
    if found["ahead"]:
        yield f"behind: {shorten(found['ahead'], _AHEAD_SHOWN)}"
    if found["not_before"]:
        yield f"not before: {format_time(found['not_before'], now)}"
    if told := found.get("never"):
        yield told
    if told := found.get("keeps_its_size"):
        yield f"size: {told}"
    at, sure = found["expected"], (found["verdict"] or {"sure": ""})["sure"]
    if found["verdict"] and at is not None:
        proviso = "unless something comes in ahead of it" if sure == "bound" else "if everything uses its time in full"
        yield f"starts: {format_start(at, sure, now)} (in {format_duration(at - now)}), {proviso}"


def _node_table(found: Json, unit: str, *, paint: bool) -> None:
    rows = sorted(found["nodes"], key=lambda node: (bool(node["cause"]), -node["fits"], -node["free"]))
    cells: dict[str, Callable[[Json], str]] = {
        f"FREE {unit.upper()}".strip(): lambda row: (
            f"{format_amount(unit, row['free'])}/{format_amount(unit, row['capacity'])}"
        ),
        "FITS": lambda row: pluralize(row["fits"], "replica"),
        "BUT": lambda row: row["cause"] or (f"held for {row['held_for']}" if row["held_for"] else ""),
    }
    columns = (Column("NODE", lambda row: row["node"]), *(Column(title, cell) for title, cell in cells.items()))
    show(Listing(columns, "node", "there are no nodes"), rows[:_NODES_SHOWN], Format.TABLE, paint=paint)
    if len(rows) > _NODES_SHOWN:
        print(f"and {len(rows) - _NODES_SHOWN} more nodes (-o json has all)")


def _freeing(each: Json, unit: str, now: int) -> str:
    ends = f"by {format_time(each['ends_by'], now)}" if each["ends_by"] else "has no time limit"
    where = ", ".join(f"{format_amount(unit, held)} on {node}" for node, held in each["nodes"][:4])
    more = f" and {len(each['nodes']) - 4} more nodes" if len(each["nodes"]) > 4 else ""
    return f"{each['job_id']}: {format_amount(unit, each['amount'])} {unit} ({where}{more}), {ends}"
