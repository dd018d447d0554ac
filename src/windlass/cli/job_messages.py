"""Formats the events of a job as lines for people. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from windlass.cli.exit_codes import ExitCode
from windlass.cli.terminal.formatting import format_duration, join_lines, pluralize, reason_text, shorten, state_name

Json = dict[str, Any]


def waiting_line(job: Json) -> str:
    """Returns the line for a queued job, with its position and its reason."""
    place = f" (position {job['position']})" if job["position"] else ""
    return f"job {job['id']} waits{place}: {reason_text(job, token=False)}"


def admission_line(job_id: str, generation: int, waited: int, nodes: Iterable[str]) -> str:
    """Returns the line for a started generation: its nodes, if known; for the first one, the time it waited (ms)."""
    where = shorten(list(dict.fromkeys(filter(None, nodes))))
    on_nodes = f" on {where}" if where else ""
    if generation > 1:
        return f"job {job_id} restarted{on_nodes} (generation {generation})"
    return f"job {job_id} admitted in {format_duration(waited)}{on_nodes} (generation {generation})"


def restart_line(job_id: str, generation: int, message: str) -> str:
    """Returns the line for a generation that has failed."""
    return f"job {job_id}: generation {generation} failed: {join_lines(message)}; restarting the whole gang"


def recovery_line(job_id: str, message: str) -> str:
    """Returns the line for a failure that the agents repaired in place, without a new generation."""
    return f"job {job_id} {join_lines(message)}"


def diagnosis_line(job_id: str, message: str) -> str:
    """Returns the line for the diagnosis of an attempt of a job that goes on."""
    return f"job {job_id}: {join_lines(message)}"


def verdict_line(cause: Json) -> str:
    """Returns the verdict on the last attempt, with the strength of its evidence and its rule."""
    strength = f" ({cause['certainty']}, {cause['rule']})" if cause["rule"] else ""
    return f"verdict: {join_lines(cause['text'])}{strength}"


def wait_verdict_lines(job: Json) -> Iterator[str]:
    """Yields the verdict on what keeps a job from running, with its fix."""
    if cause := job.get("wait_diagnosis"):
        fix = f"; fix: {join_lines(cause['fix'])}" if cause["fix"] else ""
        yield f"waits: {verdict_line(cause)}{fix}"


def end_lines(job: Json, logs: str, option: str = "") -> list[str]:
    """Returns the lines for an ended job: result, times, attempts, the verdict on its failure, where its logs are.

    `logs`: their folder, "" if they are not on this machine.
    """
    waited = job["finished_at"] - job["created_at"] - job["run_time"]
    ran = f"ran {format_duration(job['run_time'])}" if job["attempts"] else "never ran"
    attempts = pluralize(job["attempts"], "attempt")
    return [
        f"job {job['id']} {_outcome(job)}: waited {format_duration(waited)}, {ran}, {attempts}",
        *_verdict_lines(job, option),
        *([f"logs: {_log_location(job['id'] + option, logs)}"] if job["attempts"] else []),
    ]


def _verdict_lines(job: Json, option: str) -> list[str]:
    if job["phase"] == "Failed" and job["reason"] != "Cancelled" and job.get("awaits_diagnosis"):
        return [f"no verdict yet: windlass doctor {job['id']}{option}"]
    return [verdict_line(job["diagnosis"])] if (job.get("diagnosis") or {}).get("rule") else []


def _log_location(words: str, folder: str) -> str:
    command = f"windlass logs {words}"
    return f"{folder}  ({command})" if folder else command


def _outcome(job: Json) -> str:
    match state_name(job):
        case "Succeeded":
            return "succeeded"
        case "Cancelled":
            return reason_text(job).lower()
        case state:
            return f"{state.lower()} ({reason_text(job)})"


def exit_code_of(jobs: Iterable[Json]) -> int:
    """Returns the exit code of the first of these jobs that did not succeed, else 0."""
    return next((code for code in map(_exit_code, jobs) if code), ExitCode.OK)


def _exit_code(job: Json) -> int:
    if job["phase"] == "Succeeded":
        return ExitCode.OK
    if job["reason"] == "Cancelled":
        return ExitCode.CANCELLED
    if job["reason"] == "Misconfigured":
        return ExitCode.REFUSED
    code = job["exit_code"]
    return code if isinstance(code, int) and 0 < code < 256 else ExitCode.FAILED
