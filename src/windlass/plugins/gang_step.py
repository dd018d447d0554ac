"""A job as one step of a pipeline: submits it, prints its output, and returns metrics; a step that ends cancels it.

The job finds the address of its input and of its output in the variables WINDLASS_INPUT and WINDLASS_OUTPUT.
"""

from __future__ import annotations

import signal
import sys
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TextIO

import re2

from windlass.client.client import Client, Job
from windlass.client.errors import InvalidRequestError, WindlassError
from windlass.client.function_result import succeeded_or_error
from windlass.client.records import JobInfo, OutputLine
from windlass.jobs.errors import InputError
from windlass.jobs.syntax.text import read_text
from windlass.jobs.syntax.yaml_tree import compose, plain

INPUT, OUTPUT = "WINDLASS_INPUT", "WINDLASS_OUTPUT"
_MAX_LINE = 10_000
"""Characters of a line of output in which metrics are sought."""
_NUMBER = r"([-+]?[0-9.]+(?:[eE][-+]?[0-9]+)?)"


@dataclass(frozen=True, slots=True)
class GangReport:
    """A job that has succeeded: its id, and its metrics by name."""

    job: str
    metrics: Mapping[str, float]


def run_gang(
    job: str | Mapping[str, Any],
    *,
    target: str = "",
    namespace: str = "",
    input_uri: str = "",
    output_uri: str = "",
    metrics: Mapping[str, str] | None = None,
    stream: TextIO | None = None,
) -> GangReport:
    """Submits a job, follows it to its end, and returns its report.

    `job`: fields of a job file, or the path of one. `metrics`: name → text before the number in the output, or a
    regular expression with one group; the last number counts. The job itself adds `attempts`, `wait_s` and `run_s`.

    Raises JobFailedError if the job fails, and other WindlassErrors as `Client.submit`.
    """
    patterns = {name: _pattern(name, text) for name, text in (metrics or {}).items()}
    found: dict[str, float] = {}
    with Client(target or None, namespace=namespace) as client, _sigterm_as_exit():
        handle = _submit(client, job, {INPUT: input_uri, OUTPUT: output_uri})
        print(f"windlass: submitted {handle.id}", file=stream or sys.stdout, flush=True)
        try:
            for line in handle.logs(follow=True):
                print(f"[{_origin(line)}] {line.text}", file=stream or sys.stdout, flush=True)
                found.update(_numbers(line.text, patterns))
            info = succeeded_or_error(handle.wait())
            for name in sorted(patterns.keys() - found.keys()):
                print(f"windlass: metric {name}: no line of the output has it", file=stream or sys.stdout, flush=True)
        except BaseException:
            _cancel(handle)
            raise
    return GangReport(info.id, {**_job_metrics(info), **found})


def _origin(line: OutputLine) -> str:
    """The rank of a line, or the agent: numbers below 0 are those of agents."""
    return f"r{line.rank}" if line.rank >= 0 else f"agent {-1 - line.rank}"


def _submit(client: Client, job: str | Mapping[str, Any], variables: Mapping[str, str]) -> Job[Any]:
    given = {name: value for name, value in variables.items() if value}
    fields = _fields_of_file(Path(job)) if isinstance(job, str) else job
    return client.submit({**fields, "env": {**(fields.get("env") or {}), **given}})


def _fields_of_file(path: Path) -> Mapping[str, Any]:
    """The fields of a job file of one job, whose folder is that of the file. Raises InvalidRequestError."""
    try:
        documents = [plain(node) for node in compose(read_text(str(path)))]
    except InputError as error:
        raise InvalidRequestError(str(error), "correct the job file") from None
    if len(documents) != 1 or not isinstance(documents[0], dict):
        raise InvalidRequestError(f"{path} does not describe one job", "write one job, and a step for each other one")
    [fields] = documents
    return {**fields, "workdir": str((path.parent / (fields.get("workdir") or "")).absolute())}


def _pattern(name: str, text: str) -> Any:
    """The expression of a metric. Raises InvalidRequestError."""
    expression = text if "(" in text else re2.escape(text) + r"\s*" + _NUMBER
    try:
        pattern = re2.compile(expression, _quiet())
    except re2.error as error:
        why = error.args[0].decode(errors="replace") if isinstance(error.args[0], bytes) else str(error)
        fix = "correct its text; a parenthesis that is not part of an expression is written as \\("
        raise InvalidRequestError(f"the metric {name} is no regular expression: {why}", fix) from None
    if pattern.groups != 1:
        problem = f"the metric {name} has {pattern.groups} groups"
        raise InvalidRequestError(problem, "put the number alone in parentheses, and other groups as (?:…)")
    return pattern


def _quiet() -> Any:
    """Options with which the library prints no errors of its own."""
    options = re2.Options()
    options.log_errors = False
    return options


def _numbers(line: str, patterns: Mapping[str, Any]) -> Iterator[tuple[str, float]]:
    for name, pattern in patterns.items():
        match = pattern.search(line[:_MAX_LINE])
        if match:
            with suppress(ValueError):
                yield name, float(match[1])


def _job_metrics(info: JobInfo) -> dict[str, float]:
    created, started, finished = info.created_at, info.started_at, info.finished_at
    times = {}
    if created and started:
        times["wait_s"] = max(0, started - created) / 1000
    if started and finished:
        times["run_s"] = max(0, finished - started) / 1000
    return {"attempts": float(info.attempts), **times}


def _cancel(handle: Job[Any]) -> None:
    """Cancels a job that has not ended; a target that does not answer is left alone."""
    with suppress(WindlassError):
        if not handle.info().has_ended:
            handle.cancel()


@contextmanager
def _sigterm_as_exit() -> Iterator[None]:
    """Raises SystemExit at SIGTERM in the main thread, so that a step which is stopped cancels its job."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)
