"""Diagnoses logs for `windlass doctor` and prints the report."""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

from windlass.cli.errors import UsageError
from windlass.cli.exit_codes import ExitCode
from windlass.cli.terminal.output import as_json
from windlass.cli.terminal.report_format import ReportFormat
from windlass.core.model.resources import format_bytes
from windlass.diagnose.failures.engine import diagnose
from windlass.diagnose.failures.evidence import Evidence
from windlass.diagnose.failures.log_files import STANDARD_INPUT, WHAT_IS_READ, NoSuchLogError, find_logs, is_program
from windlass.diagnose.failures.reports import markdown_report, plain_data, text_report, without_colours
from windlass.diagnose.flight.facts import read_hang_evidence

if TYPE_CHECKING:
    from windlass.diagnose.diagnosis import Diagnosis
    from windlass.diagnose.failures.reports import Paint, PresentState

ShowProgress: TypeAlias = Callable[[float, int, int, str], object]
"""Shows the fraction that is done, the finished parts, all parts, and what is worked on, as `ProgressBar` does."""
_COLOURS = {"verdict": "1;31", "label": "1", "quiet": "2"}


def show_nothing(_fraction: float, _ended: int, _parts: int, _text: str) -> None:
    """The progress of a diagnosis that is not shown."""


def diagnose_logs(
    paths: Sequence[str], show: ShowProgress = show_nothing, *, show_secrets: bool, has_failed: bool = False
) -> Diagnosis:
    """The diagnosis of files, folders or standard input. Raises UsageError where no log can be read.

    `has_failed`: whether the user says that the job failed or stands still.
    """
    try:
        files = find_logs(paths)
    except NoSuchLogError as error:
        raise UsageError(str(error)) from error
    hang = read_hang_evidence(Path(file.name) for file in files if file.name != STANDARD_INPUT)
    logs = [file for file in files if Path(file.name) not in hang.paths]
    total = sum(log.size for log in logs)
    evidence = Evidence(logs, facts=hang.facts, has_failed=has_failed)
    found = diagnose_with_progress(evidence, show, show_secrets=show_secrets, total=total)
    diagnosis = replace(found, unseen=[*found.unseen, *hang.gaps])
    if not files or (diagnosis.verdict is None and len(diagnosis.unseen) >= len(files)):
        gaps = "; ".join(diagnosis.unseen[:3]) or "the folder is empty"
        raise UsageError(f"no log can be read: {gaps}\n{WHAT_IS_READ}")
    programs = [f"{path}: a program, not read" for path in paths if is_program(path)]
    return replace(diagnosis, unseen=[*diagnosis.unseen, *programs])


def print_diagnosis(
    diagnosis: Diagnosis, how: ReportFormat, present: PresentState | None = None, **more: object
) -> ExitCode:
    """Prints a diagnosis and returns the exit code: FAILED with a verdict, OK without.

    `present`: the state of a job that has not failed; `more`: further fields of the JSON.
    """
    if how is ReportFormat.JSON:
        print(as_json({**plain_data(diagnosis), **more}))
    elif how is ReportFormat.MARKDOWN:
        print(markdown_report(diagnosis, present))
    else:
        print(text_report(diagnosis, _paint(), present))
    return ExitCode.OK if diagnosis.verdict is None else ExitCode.FAILED


def diagnose_with_progress(evidence: Evidence, show: ShowProgress, *, show_secrets: bool, total: int = 0) -> Diagnosis:
    """Diagnoses evidence, and shows how much of it is read. `total`: its bytes, 0 if not known."""
    done, lock = 0, threading.Lock()
    show(0.0, 0, total, _describe_bytes(0, total))

    def count(read: int) -> None:
        nonlocal done
        with lock:
            done += read
            show(min(1.0, done / total) if total else 0.0, done, total, _describe_bytes(done, total))

    return diagnose(evidence, show_secrets=show_secrets, report_bytes=count)


def _describe_bytes(done: int, total: int) -> str:
    """Returns the bytes read of the total; of compressed logs, and where no total is known, those read."""
    return f"{format_bytes(done)} of {format_bytes(total)}" if 0 < total >= done else f"{format_bytes(done)} read"


def _paint() -> Paint:
    if not sys.stdout.isatty() or os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb":
        return without_colours
    return lambda text, style: f"\x1b[{_COLOURS[style]}m{text}\x1b[0m"
