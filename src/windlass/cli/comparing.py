"""What `simulate` does once it knows what it is asked: run the policies side by side, and print what came out."""

from __future__ import annotations

import signal
import sys
from collections.abc import Coroutine
from pathlib import Path
from types import FrameType
from typing import Any

from windlass.cli.exit_codes import ExitCode
from windlass.cli.failures import UsageError
from windlass.cli.output import Column, Format, Listing, Row, show
from windlass.cli.place import paints
from windlass.cli.questions import Asked, command_of, question_of
from windlass.cli.tallying import Tally
from windlass.controller import Controller
from windlass.controller import run as control
from windlass.server.garbage import collect_seldom
from windlass.worlds.sim import SimError
from windlass.worlds.sim.report import FIGURES, Experiment, Figure, Run, build, check_folder, mean_and_sd, write
from windlass.worlds.sim.report.words import listed, told_with
from windlass.worlds.sim.study import answer
from windlass.worlds.sim.world import SimWorld


def compare(asked: Asked, report: Path | None, processes: int, output: Format, *, no_color: bool) -> int:
    """Answer it, `processes` runs at a time; write the page into `report` if there is to be one. The exit code."""
    try:
        if report:
            check_folder(report)
        experiment, runs = _answered(asked, processes, no_color=no_color)
        page = write(build(experiment, runs), report) if report else None
    except SimError as error:
        raise UsageError(str(error)) from None
    except KeyboardInterrupt:
        _say("windlass: interrupted; nothing was written")
        return ExitCode.CANCELLED
    show(_table(), [_row(name, runs) for name in experiment.policies], output, paint=paints(no_color=no_color))
    _notes(asked, experiment, runs, page)
    return ExitCode.OK


def _answered(asked: Asked, processes: int, *, no_color: bool) -> tuple[Experiment, list[Run]]:
    signal.signal(signal.SIGTERM, _interrupt)
    collect_seldom()
    with Tally("simulating", no_color=no_color) as tally:
        return answer(question_of(asked), command_of(asked), _controlled, processes=processes, on_progress=tally)


def _interrupt(_number: int, _frame: FrameType | None) -> None:
    """SIGTERM means what Ctrl-C means: no run is left behind."""
    raise KeyboardInterrupt


def _controlled(world: SimWorld) -> Coroutine[Any, Any, None]:
    return control(Controller(world.recover(), world.finished), world, on_trouble=_say)


def _say(text: str) -> None:
    print(text, file=sys.stderr)


# --- what is printed --------------------------------------------------------------------------------


def _table() -> Listing:
    columns = [Column("POLICY", lambda row: row["policy"]), Column("RUNS", lambda row: str(row["runs"]), wide=True)]
    columns += [Column(each.head, _cell(each), wide=each.wide, right=True) for each in FIGURES]
    return Listing(tuple(columns), key="policy", empty="no policy was asked for")


def _cell(figure: Figure) -> Any:
    return lambda row: told_with(row[figure.key]["mean"], row[figure.key]["sd"], figure.unit)


def _row(policy: str, runs: list[Run]) -> Row:
    own = [run.metrics for run in runs if run.policy == policy]
    spreads = {figure.key: mean_and_sd([figure.value(metrics) for metrics in own]) for figure in FIGURES}
    figures = {key: {"mean": mean, "sd": sd} for key, (mean, sd) in spreads.items()}
    left_out = dict(own[0].left_out)
    return {"policy": policy, "runs": len(own), "jobs": own[0].everything.jobs, "left_out": left_out, **figures}


def _notes(asked: Asked, experiment: Experiment, runs: list[Run], page: Path | None) -> None:
    """What a table does not say, on stderr."""
    if not experiment.random and asked.seeds != "1":
        _say("nothing in this depends on a seed: one run of each policy tells all")
    if causes := runs[0].metrics.left_out:
        _say(f"left out: {listed([f'{count:,} × {cause}' for cause, count in causes.items()])}")
    if page is not None:
        _say(f"report: {page}")
