"""The verbs `snapshot` and `replay`: write the scheduler's state to a file, and compute the plan for such a file."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from windlass.cli.errors import UsageError
from windlass.cli.exit_codes import ExitCode
from windlass.cli.target import controller_client, uses_color
from windlass.cli.target_options import NamespaceOption, NoColorOption, OnOption, StateOption
from windlass.cli.terminal.formatting import format_start, format_time, pluralize, shorten
from windlass.cli.terminal.output import Column, Format, FormatOption, Listing, as_yaml, show

if TYPE_CHECKING:
    from windlass.core.model.plan import Plan

Row = dict[str, Any]


class _Form(StrEnum):
    JSON = "json"
    YAML = "yaml"


def snapshot(
    file: Annotated[
        Path | None, typer.Argument(metavar="[FILE]", help="Output file; .gz compresses it. Default: stdout.")
    ] = None,
    output: Annotated[
        _Form, typer.Option("-o", "--output", help="Output format; `windlass replay` reads json.")
    ] = _Form.JSON,
    planned: Annotated[
        bool, typer.Option("--planned", help="The state of the last scheduling cycle, with its plan.")
    ] = False,
    on: OnOption = "",
    namespace: NamespaceOption = "",
    state: StateOption = None,
) -> int:
    """Write the state of the scheduler to a file: nodes, queues, policy, and every job that runs or waits.

    `windlass replay` computes the same plan from it on any machine. It contains no commands or environments of jobs.
    """
    taken = controller_client(on, namespace, state).snapshot(planned=planned)
    from windlass.jobs.cluster.snapshot_file import pack, plain_bytes  # noqa: PLC0415 - loads the core

    content = as_yaml(taken).encode() if output is _Form.YAML else plain_bytes(taken) + b"\n"
    if file is None:
        sys.stdout.write(content.decode())
        return ExitCode.OK
    if file.suffix == ".gz":
        content = pack(content)
    try:
        file.write_bytes(content)
    except OSError as error:
        raise UsageError(f"{file} cannot be written: {error.strerror}") from None
    counts = [pluralize(len(taken[what]), one) for what, one in (("nodes", "node"), ("running", "running job"))]
    print(
        f"{file}: {', '.join(counts)}, {len(taken['pending'])} waiting, at {format_time(taken['now'])}",
        file=sys.stderr,
    )
    return ExitCode.OK


_COLOURS = {"starts": "green", "waits": "yellow", "is stopped": "red", "is resized": "cyan"}
_PLAN = Listing(
    (
        Column("JOB", lambda row: row["job"]),
        Column("POS", lambda row: str(row["position"] or "-"), right=True),
        Column("DECISION", lambda row: row["what"], style=lambda row: _COLOURS[row["what"]]),
        Column("NODES", lambda row: shorten(row["nodes"])),
        Column("STARTS", lambda row: format_start(row["eta"], row["certainty"]), wide=True),
        Column("REASON", lambda row: row["reason"], wide=True),
        Column("WHY", lambda row: row["why"]),
    ),
    key="job",
    empty="no job waits, and none is to be stopped",
)


def replay(
    file: Annotated[str, typer.Argument(metavar="FILE", help="Output of `windlass snapshot`; - is stdin.")],
    policy: Annotated[
        str, typer.Option("--policy", metavar="POLICY", help="Use another policy: fifo, fair, sjf+easy, …")
    ] = "",
    output: FormatOption = Format.TABLE,
    no_color: NoColorOption = False,
) -> int:
    """Compute the plan for a snapshot, with reasons. Needs no daemon and changes nothing.

    If the snapshot contains the plan of that cycle, the two are compared; exits with 1 if they differ.
    """
    from windlass.core.cycle.scheduler import schedule  # noqa: PLC0415 - only this verb runs the scheduler
    from windlass.jobs.cluster.snapshot_file import decisions_of, read_snapshot  # noqa: PLC0415

    taken = read_snapshot(file)
    snapshot_used = _with_policy(taken.snapshot, policy) if policy else taken.snapshot
    plan = schedule(snapshot_used, taken.now)
    show(_PLAN, list(_rows(plan)), output, paint=uses_color(no_color=no_color))
    if taken.plan is None or policy:
        return ExitCode.OK
    same = decisions_of(plan) == taken.plan
    print("same plan as recorded" if same else "not the recorded plan", file=sys.stderr)
    return ExitCode.OK if same else ExitCode.FAILED


def _with_policy(snapshot: Any, words: str) -> Any:
    """Returns the same snapshot under another policy."""
    from windlass.core.ledger import Ledger  # noqa: PLC0415 - as above
    from windlass.server.cluster_selection import parse_policy  # noqa: PLC0415

    ledger, table = Ledger.at(snapshot), snapshot.table
    policy = parse_policy(words)
    ledger.set_cluster(table.nodes, snapshot.queues.values(), table.topology, policy, snapshot.reservations)
    return ledger.snapshot()


def _rows(plan: Plan) -> Iterator[Row]:
    """Yields the jobs that are stopped, resized and started, then the waiting ones in queue order."""
    for stopped in plan.preemptions:
        yield _row(stopped.job_id, "is stopped", why=f"for {stopped.by}: {stopped.reason}")
    for resized in plan.resizes:
        yield _row(resized.job_id, "is resized", nodes=resized.placement.distinct(), why=resized.reason)
    for started in plan.admissions:
        yield _row(started.job_id, "starts", nodes=started.placement.distinct())
    positions = {job_id: place for place, job_id in enumerate(plan.order, start=1)}
    for job_id in sorted(plan.verdicts, key=lambda job_id: positions.get(job_id, len(positions) + 1)):
        verdict = plan.verdicts[job_id]
        facts = {
            "why": verdict.message,
            "reason": verdict.reason.value,
            "eta": verdict.eta,
            "certainty": verdict.certainty.value,
        }
        yield _row(job_id, "waits", (), position=positions.get(job_id, 0), **facts)


def _row(job_id: str, what: str, nodes: tuple[str, ...] = (), **more: Any) -> Row:
    plain = {"why": "", "reason": "", "position": 0, "eta": None, "certainty": ""}
    return {"job": job_id, "what": what, "nodes": list(nodes), **plain, **more}
