"""`windlass status`: prints the details of a job, or the state of the controller."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Annotated, Any, cast

import typer

from windlass.cli.completion import complete_job_names
from windlass.cli.exit_codes import ExitCode
from windlass.cli.job_messages import verdict_line, wait_verdict_lines
from windlass.cli.schedules import schedule_lines
from windlass.cli.target import SLURM, ControllerClient, JobSource, job_source, uses_color, warn_if_offline
from windlass.cli.target_options import NamespaceOption, NoColorOption, OnOption, StateOption
from windlass.cli.terminal.formatting import (
    format_duration,
    format_resources,
    format_time,
    join_lines,
    pluralize,
    reason_text,
    shorten,
    state_name,
)
from windlass.cli.terminal.output import (
    Column,
    Format,
    FormatOption,
    Listing,
    WatchOption,
    print_structured,
    show,
    watch_value,
)
from windlass.cli.training_progress import progress_lines
from windlass.core.model.resources import is_shared_out
from windlass.core.model.status import TERMINAL
from windlass.server.errors import NO_DAEMON, START_DAEMON

if TYPE_CHECKING:
    from windlass.server.records_client import RecordsClient

Json = dict[str, Any]


def status(
    job: Annotated[
        str, typer.Argument(metavar="[JOB]", help="A name or an id.", autocompletion=complete_job_names)
    ] = "",
    output: FormatOption = Format.TABLE,
    watch: WatchOption = False,
    on: OnOption = "",
    namespace: NamespaceOption = "",
    state: StateOption = None,
    no_color: NoColorOption = False,
) -> int:
    """Details of a job, every attempt with its cause; without a job, the state of the controller.

    Of a schedule: its next time, its runs, and the times that were missed or skipped.
    """
    source = job_source(on, namespace, state)
    paint = uses_color(no_color=no_color)

    def display(facts: Json) -> None:
        if print_structured(facts, output, facts.get("id") or facts.get("name", "")):
            return
        if not job:
            _print(_controller_lines(facts))
        elif "cron" in facts:
            _print(schedule_lines(facts))
        elif "members" in facts:
            show(_MEMBERS, facts["members"], output, paint=paint)
        else:
            _print(_job_lines(facts, wide=output is Format.WIDE))

    def read() -> Json:
        if job:
            details = source.job(job)
            if details.get("phase") not in TERMINAL:
                warn_if_offline(source)
                if "cron" not in details:
                    _warn_of_living_processes(source, details["id"])
            return details
        return _controller_state(source)

    watch_value(read, display, again=watch)
    return ExitCode.OK


def _controller_state(source: JobSource) -> Json:
    """Returns the state of the controller, or what the records tell without one."""
    if not source.kind:
        living = cast("RecordsClient", source).living()
        return {"kind": "", "waiting": len(source.jobs()) - len(living), "holding": len(living), "living": living}
    return cast("ControllerClient", source).ping()


def _warn_of_living_processes(source: JobSource, job_id: str) -> None:
    """Prints on stderr, in place of a daemon, whether a job that holds nodes still has processes."""
    living = {} if source.kind else cast("RecordsClient", source).living()
    if job_id in living:
        print(_describe_living(job_id, living[job_id]), file=sys.stderr)


def _describe_living(job_id: str, pids: Sequence[int]) -> str:
    if not pids:
        return f"{job_id} has no process left; the next daemon records its end"
    return f"{job_id} runs without a daemon (pid {shorten([*map(str, pids)])}); the next daemon takes it over"


_MEMBERS = Listing(
    (
        Column("JOB", lambda row: row["id"]),
        Column("STATE", state_name),
        Column("ATTEMPTS", lambda row: str(row["attempts"]), right=True),
        Column("NODES (WHY)", lambda row: shorten(row["nodes"]) or reason_text(row, token=False)),
    ),
    key="id",
    empty="the array has no members",
)


def _print(lines: Iterator[str]) -> None:
    for line in lines:
        print(join_lines(line))


# --- status ---------------------------------------------------------------------------------------------


_CONTROLLERS = {"up": "windlass up", "run": "a `windlass run`", "operator": "the operator"}


_MAX_LIVING = 10
"""Number of jobs without a daemon that are listed."""


def _controller_lines(facts: Json) -> Iterator[str]:
    if not facts["kind"]:
        yield f"{NO_DAEMON}; {START_DAEMON}"
        for job_id, pids in [*facts["living"].items()][:_MAX_LIVING]:
            yield _describe_living(job_id, pids)
        if (more := len(facts["living"]) - _MAX_LIVING) > 0:
            yield f"and {pluralize(more, 'more job')} that held nodes; windlass queue lists them"
        if facts["waiting"]:
            yield f"recorded, not ended: {pluralize(facts['waiting'], 'other job')}"
        return
    if facts["kind"] == SLURM:
        yield f"{facts['version']} schedules these jobs"
        yield _job_counts(facts)
        if facts["note"]:
            yield f"note: {facts['note']}"
        return
    controller = _CONTROLLERS[facts["kind"]]
    uptime = format_duration(facts["now"] - facts["since"])
    yield f"{controller} (pid {facts['pid']}, version {facts['version']}) for {uptime}"
    yield f"cluster: {facts['cluster']}: {format_resources(facts['capacity'])} in all"
    yield _job_counts(facts)
    yield f"state: {facts['state']}"
    if facts["trouble"]:
        yield f"trouble: {facts['trouble']}"


def _job_counts(facts: Json) -> str:
    holding, waiting = facts["holding"], facts["waiting"]
    return f"jobs: {holding} hold{'s' * (holding == 1)} nodes, {waiting} wait{'s' * (waiting == 1)}"


def _job_lines(job: Json, *, wide: bool) -> Iterator[str]:
    """Yields the headline of a job, its roles, queue, times and progress, every attempt and (wide) every transition."""
    yield headline(job)
    spec = job["spec"]
    for role in spec["roles"]:
        asks = (
            format_resources({name: amount for name, amount in role["resources"].items() if is_shared_out(name)})
            or "nothing"
        )
        ranks = f"{_size(role)}×{pluralize(role['procs'], 'rank')}"
        runs = f": {' '.join(role['command'])}" if role["command"] else ""  # a manifest may leave it to the image
        yield f"  {role['name']}: {ranks}, {asks} each{runs}"
    where = f", in {spec['workdir']}" if spec["workdir"] else ""
    yield f"  queue {job['queue']}, priority {job['priority']}, user {job['user'] or 'none'}{where}"
    times = (format_time(job[f"{name}_at"]) for name in ("created", "started", "finished"))
    yield "  submitted {}, started {}, ended {}".format(*times)
    for line in job["rank_resources"]:
        yield f"  {line}"
    for line in (*progress_lines(job), *wait_verdict_lines(job)):
        yield f"  {line}"
    yield from _attempts(job, every_rank=wide)
    if wide:
        for step in job["transitions"]:
            way = f"{step['before'] or 'new'} → {step['after']}"
            yield f"  {format_time(step['at'])} {step['event']}: {way}  {step['message']}".rstrip()


def _size(role: Json) -> str:
    """Returns the number of replicas: "4", or "2–8" of an elastic role."""
    replicas, fewest, most = role["replicas"], role["min_replicas"], role["max_replicas"]
    return str(replicas) if fewest is most is None else f"{fewest or replicas}–{max(replicas, most or 0)}"


def headline(job: Json) -> str:
    """Returns id, state, queue position, nodes and reason of a job."""
    place = f", position {job['position']}" if job["position"] else ""
    nodes = f" on {shorten(job['nodes'])}" if job["nodes"] else ""
    reason = "" if _is_reason_redundant(job) else f": {reason_text(job)}"
    return f"{job['id']} {state_name(job)}{place}{nodes}{reason}"


def _is_reason_redundant(job: Json) -> bool:
    return job["reason"] == state_name(job) and not job["message"]


def _attempts(job: Json, *, every_rank: bool) -> Iterator[str]:
    """Yields every attempt with its nodes, duration and end; with `every_rank`, also the end of each failed rank."""
    numbers = sorted({task["generation"] for task in job["tasks"]})
    causes, verdicts = _causes(job["transitions"]), _verdicts(job)
    for number in numbers:
        tasks = [task for task in job["tasks"] if task["generation"] == number]
        nodes = shorten(list(dict.fromkeys(task["node"] for task in tasks)))
        began, ended, cause = causes.get(number, (None, None, ""))
        ran = f", ran {format_duration(ended - began)}" if began is not None and ended is not None else ""
        yield f"  attempt {number} on {nodes}{ran}: {cause or 'runs'}"
        if number in verdicts:
            yield f"    {verdicts[number]}"
        for task in tasks if every_rank else ():
            if task["detail"] and (task["code"] or task["signal"]):
                yield f"    {task['detail']}"


def _verdicts(job: Json) -> dict[int, str]:
    """Returns the verdict by attempt: of the newest one with its strength and fix, of earlier ones their text."""
    told = [step["message"].partition(": ") for step in job["transitions"] if step["event"] == "Diagnosed"]
    found = {int(name.rpartition(" ")[2]): f"verdict: {text}" for name, _, text in told if name[-1:].isdecimal()}
    if cause := job.get("diagnosis"):
        fix = f"; fix: {cause['fix']}" if cause["fix"] else ""
        gaps = f"; not seen: {cause['unseen']}" if cause["unseen"] else ""
        found[cause["generation"]] = verdict_line(cause) + fix + gaps
    return found


def _causes(transitions: Sequence[Json]) -> dict[int, tuple[int | None, int | None, str]]:
    """Returns by generation: the time of its start, the time at which its end began, and the reason."""
    found: dict[int, tuple[int | None, int | None, str]] = {}
    number, began = 0, None
    for step in transitions:
        if step["after"] == "Admitted" and step["before"] != "Admitted":
            number, began = number + 1, step["at"]
            found[number] = (began, None, "")
        elif number and step["after"] in ("Restarting", "Succeeded", "Failed", "Suspended") and not found[number][2]:
            found[number] = (began, step["at"], step["message"])
    return found
