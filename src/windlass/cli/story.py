"""`status`, the whole story of a job, and `why`, what keeps it waiting."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Annotated, Any

import typer

from windlass.cli.exit_codes import ExitCode
from windlass.cli.known import job_names
from windlass.cli.output import Column, Format, FormatOption, Listing, WatchOption, paged, show, structured
from windlass.cli.place import NoColorOption, StateOption, paints, state_folder
from windlass.cli.words import amount, amounts, moment, several, shortened, span
from windlass.server.attach import source
from windlass.server.client import Client

Json = dict[str, Any]
_NODES_SHOWN = 20
_AHEAD_SHOWN = 5


def status(
    job: Annotated[str, typer.Argument(metavar="[JOB]", help="A name or an id.", autocompletion=job_names)] = "",
    output: FormatOption = Format.TABLE,
    watch: WatchOption = False,
    state: StateOption = None,
    no_color: NoColorOption = False,
) -> int:
    """The whole story of a job, every attempt with its cause; without a job, how everything stands."""
    asked = source(state_folder(state))
    paint = paints(no_color=no_color)

    def tell(facts: Json) -> None:
        if structured(facts, output, facts.get("id", "")):
            return
        if not job:
            _print(_overall(facts))
        elif "members" in facts:
            show(_MEMBERS, facts["members"], output, paint=paint)
        else:
            _print(_life(facts, wide=output is Format.WIDE))

    def look() -> Json:
        if job:
            return asked.job(job)
        return asked.ping() if isinstance(asked, Client) else {"kind": "", "waiting": len(asked.jobs()), "holding": 0}

    paged(look, tell, again=watch)
    return ExitCode.OK


def why(
    job: Annotated[str, typer.Argument(help="A name or an id.", autocompletion=job_names)],
    output: FormatOption = Format.TABLE,
    watch: WatchOption = False,
    state: StateOption = None,
    no_color: NoColorOption = False,
) -> int:
    """Why a job waits: what is missing, node by node, who frees it and when, and what would start now instead."""
    asked = source(state_folder(state))
    paint = paints(no_color=no_color)

    def tell(answer: Json) -> None:
        if structured(answer, output, answer["job"]["id"]):
            return
        print(_head(answer["job"]))
        if explanation := answer.get("explanation"):
            _explain(explanation, answer["now"], paint=paint)

    paged(lambda: asked.why(job), tell, again=watch)
    return ExitCode.OK


_MEMBERS = Listing(
    (
        Column("JOB", lambda row: row["id"]),
        Column("STATE", lambda row: row["phase"]),
        Column("TRIES", lambda row: str(row["attempts"]), right=True),
        Column("NODES (REASON)", lambda row: shortened(row["nodes"]) or row["reason"]),
    ),
    key="id",
    empty="the array has no members",
)


def _print(lines: Iterator[str]) -> None:
    for line in lines:
        print(line)


# --- status ---------------------------------------------------------------------------------------------


def _overall(facts: Json) -> Iterator[str]:
    if not facts["kind"]:
        yield "no daemon runs; start one with: windlass up -d"
        if facts["waiting"]:
            yield f"{several(facts['waiting'], 'job')} on record that have not ended"
        return
    who = "windlass up" if facts["kind"] == "up" else "a `windlass run`"
    yield f"{who} (pid {facts['pid']}, version {facts['version']}) for {span(facts['now'] - facts['since'])}"
    yield f"cluster: {facts['cluster']}: {amounts(facts['capacity'])} in all"
    yield f"jobs: {facts['holding']} hold nodes, {facts['waiting']} wait"
    yield f"state: {facts['state']}"
    if facts["trouble"]:
        yield f"trouble: {facts['trouble']}"


def _life(job: Json, *, wide: bool) -> Iterator[str]:
    """Who it is, how it stands, then every attempt, then (wide) every line of its history."""
    yield _head(job)
    spec = job["spec"]
    for role in spec["roles"]:
        asks = amounts(role["resources"]) or "nothing"
        yield f"  {role['name']}: {role['replicas']}×{role['procs']} ranks, {asks} each: {' '.join(role['command'])}"
    yield f"  queue {job['queue']}, priority {job['priority']}, user {job['user']}, in {spec['workdir']}"
    times = (moment(job[f"{name}_at"]) for name in ("created", "started", "finished"))
    yield "  submitted {}, started {}, ended {}".format(*times)
    for line in job["surroundings"]:
        yield f"  {line}"
    yield from _attempts(job, every_rank=wide)
    if wide:
        for step in job["transitions"]:
            way = f"{step['before'] or 'new'} → {step['after']}"
            yield f"  {moment(step['at'])} {step['event']}: {way}  {step['message']}"


def _head(job: Json) -> str:
    place = f", position {job['position']}" if job["position"] else ""
    nodes = f" on {shortened(job['nodes'])}" if job["nodes"] else ""
    told = f": {job['reason']}" + (f": {job['message']}" if job["message"] else "") if not _says_it(job) else ""
    return f"{job['id']} {job['phase']}{place}{nodes}{told}"


def _says_it(job: Json) -> bool:
    return job["reason"] == job["phase"] and not job["message"]


def _attempts(job: Json, *, every_rank: bool) -> Iterator[str]:
    """Every start of the gang: when, where, and why it ended; and how each rank did that did not end well."""
    numbers = sorted({task["generation"] for task in job["tasks"]})
    causes = _causes(job["transitions"])
    for number in numbers:
        tasks = [task for task in job["tasks"] if task["generation"] == number]
        nodes = shortened(list(dict.fromkeys(task["node"] for task in tasks)))
        began, ended, cause = causes.get(number, (None, None, ""))
        ran = f", ran {span(ended - began)}" if began is not None and ended is not None else ""
        yield f"  attempt {number} on {nodes}{ran}: {cause or 'runs'}"
        for task in tasks if every_rank else ():
            if task["detail"] and (task["code"] or task["signal"]):
                yield f"    {task['detail']}"


def _causes(transitions: Sequence[Json]) -> dict[int, tuple[int | None, int | None, str]]:
    """By generation: when it was started, when its end began, and why."""
    found: dict[int, tuple[int | None, int | None, str]] = {}
    number, began = 0, None
    for step in transitions:
        if step["after"] == "Admitted" and step["before"] != "Admitted":
            number, began = number + 1, step["at"]
            found[number] = (began, None, "")
        elif number and step["after"] in ("Restarting", "Succeeded", "Failed", "Suspended") and not found[number][2]:
            found[number] = (began, step["at"], step["message"])
    return found


# --- why ------------------------------------------------------------------------------------------------


def _explain(found: Json, now: int, *, paint: bool) -> None:
    unit = found["resource"]
    _print(_times(found, now))
    _node_table(found, unit, paint=paint)
    frees = [_freeing(each, unit, now) for each in found["frees"]]
    if frees:
        print("frees:", *frees, sep="\n  ")
    if found["would_start"]:
        print("would start now:", " | ".join(each["change"] for each in found["would_start"]))


def _times(found: Json, now: int) -> Iterator[str]:
    if found["ahead"]:
        yield f"behind: {shortened(found['ahead'], _AHEAD_SHOWN)}"
    if found["not_before"]:
        yield f"not before: {moment(found['not_before'], now)}"
    eta = found["verdict"] and found["verdict"]["eta"]
    if eta:
        yield f"starts by: {moment(eta, now)} (in {span(eta - now)})"
    elif found["expected"]:
        yield f"expected: {moment(found['expected'], now)} (in {span(found['expected'] - now)})"


def _node_table(found: Json, unit: str, *, paint: bool) -> None:
    rows = sorted(found["nodes"], key=lambda node: (bool(node["cause"]), -node["fits"], -node["free"]))
    cells: dict[str, Callable[[Json], str]] = {
        f"FREE {unit.upper()}".strip(): lambda row: f"{amount(unit, row['free'])}/{amount(unit, row['capacity'])}",
        "FITS": lambda row: several(row["fits"], "replica"),
        "BUT": lambda row: row["cause"] or (f"held for {row['held_for']}" if row["held_for"] else ""),
    }
    columns = (Column("NODE", lambda row: row["node"]), *(Column(title, cell) for title, cell in cells.items()))
    show(Listing(columns, "node", "there are no nodes"), rows[:_NODES_SHOWN], Format.TABLE, paint=paint)
    if len(rows) > _NODES_SHOWN:
        print(f"and {len(rows) - _NODES_SHOWN} more nodes (-o json has all)")


def _freeing(each: Json, unit: str, now: int) -> str:
    when = f"by {moment(each['ends_by'], now)}" if each["ends_by"] else "has no time limit"
    where = ", ".join(f"{amount(unit, held)} on {node}" for node, held in each["nodes"][:4])
    more = f" and {len(each['nodes']) - 4} more nodes" if len(each["nodes"]) > 4 else ""
    return f"{each['job_id']}: {amount(unit, each['amount'])} {unit} ({where}{more}), {when}"
