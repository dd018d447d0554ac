"""A job's events as the lines a person reads. Pure: what came in, what to say."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from windlass.cli.exit_codes import ExitCode
from windlass.cli.terminal.formatting import format_duration, pluralize, reason_text, shorten, state_name

Json = dict[str, Any]


def waiting_line(job: Json) -> str:
    """How a job in the queue stands."""
    place = f" (position {job['position']})" if job["position"] else ""
    return f"job {job['id']} waits{place}: {reason_text(job, token=False)}"


def admission_line(job_id: str, generation: int, waited: int, nodes: Iterable[str]) -> str:
    """It has nodes: which, if that is known, and how long it took (ms). A later generation starts again on its own."""
    where = shorten(list(dict.fromkeys(filter(None, nodes))))
    there = f" on {where}" if where else ""
    if generation > 1:
        return f"job {job_id} starts again{there} (generation {generation})"
    return f"job {job_id} admitted in {format_duration(waited)}{there} (generation {generation})"


def restart_line(job_id: str, generation: int, message: str) -> str:
    """A generation was lost: why, and what comes."""
    return f"job {job_id} lost generation {generation}: {message}; the gang starts again whole"


def recovery_line(job_id: str, message: str) -> str:
    """Its agents have put a failure right; no generation was lost."""
    return f"job {job_id} {message}"


def end_lines(job: Json, logs: str, option: str = "") -> list[str]:
    """The end: the result, the waits and runs, where the logs are ("": nowhere here), and the verb that reads them."""
    waited = job["finished_at"] - job["created_at"] - job["served"]
    ran = f"ran {format_duration(job['served'])}" if job["attempts"] else "never ran"
    attempts = pluralize(job["attempts"], "attempt")
    return [
        f"job {job['id']} {_end(job)}: waited {format_duration(waited)}, {ran}, {attempts}",
        *([f"logs: {_logs(job['id'] + option, logs)}"] if job["attempts"] else []),
    ]


def _logs(words: str, where: str) -> str:
    verb = f"windlass logs {words}"
    return f"{where}  ({verb})" if where else verb


def _end(job: Json) -> str:
    match state_name(job):
        case "Succeeded":
            return "succeeded"
        case "Cancelled":
            return reason_text(job).lower()
        case state:
            return f"{state.lower()} ({reason_text(job)})"


def exit_code_of(jobs: Iterable[Json]) -> int:
    """The exit code of a run: of the first job that did not succeed, else 0."""
    return next((code for code in map(_result, jobs) if code), ExitCode.OK)


def _result(job: Json) -> int:
    if job["phase"] == "Succeeded":
        return ExitCode.OK
    if job["reason"] == "Cancelled":
        return ExitCode.CANCELLED
    if job["reason"] == "Misconfigured":
        return ExitCode.REFUSED
    code = job["exit_code"]
    return code if isinstance(code, int) and 0 < code < 256 else ExitCode.FAILED
