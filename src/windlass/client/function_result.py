"""The result of a function's job: from its end and from the output of rank 0."""

from __future__ import annotations

from collections.abc import Sequence

from windlass.client.connection import TargetConnection
from windlass.client.errors import JobFailedError, ResultError
from windlass.client.function_call import RESULT_KEY, read_result, without_result
from windlass.client.job_output import OutputSelection
from windlass.client.job_queries import read_job
from windlass.client.plain_values import PlainValueError
from windlass.client.records import JobInfo, OutputLine
from windlass.core.model.status import CANCELLED

_KEPT = "of a deleted pod only the last 64 KiB exist, of more than 64 pods together 4 MiB; return the path of a file"


VERDICT_TIMEOUT_S = 3.0
"""Longest time for which the error of a failed job waits for the verdict on the failure."""


def read_call_key(connection: TargetConnection, job: str) -> str:
    """Returns the key of the call that a job carries out, "" if it is no job of a function."""
    found = read_job(connection, job)
    one = read_job(connection, found.members[0].id) if found.members else found
    role, *_ = (one.details.get("spec") or {}).get("roles") or [{}]
    return str((role.get("env") or {}).get(RESULT_KEY, ""))


def selection_of_result(info: JobInfo) -> OutputSelection:
    """Returns the output that may hold the result, that of the first replica.

    In an elastic job, rank 0 may become one of another replica within an attempt.
    """
    is_elastic = any(each.details.get("elastic") for each in info.members or (info,))
    return OutputSelection(ranks=None if is_elastic else (0,))


def succeeded_or_error(info: JobInfo) -> JobInfo:
    """Returns the job if it has succeeded. Raises JobFailedError with its reason otherwise."""
    if info.succeeded:
        return info
    reason, verdict = info.message or info.reason or info.phase, verdict_of(info)
    found = f"\n{verdict}" if verdict else ""
    fix = f"see its output: windlass logs {info.id}"
    raise JobFailedError(f"{info.id} has failed: {reason}{found}", fix, info.id, verdict)


def expects_verdict(info: JobInfo) -> bool:
    """Whether a failure will be diagnosed: that of a job which ran and that its user has not cancelled."""
    is_failed = info.has_ended and not info.succeeded and info.reason != CANCELLED
    return is_failed and bool(info.attempts) and info.diagnosis is None


def verdict_of(info: JobInfo) -> str:
    """Returns the verdict on the failure of a job, such as the exception of its function; "" without one."""
    found = info.diagnosis or {}
    return str(found.get("text", "")) if found.get("rule") else ""


def carries_result(line: OutputLine, key: str) -> bool:
    """Whether a line carries a part of the result of a call; one on the standard error never does."""
    return line.stream == "out" and without_result(line.text, key) != line.text


def result_of_output(info: JobInfo, texts: Sequence[str], key: str, *, in_cluster: bool) -> object:
    """Returns the result in lines of output, under the key of its call. Raises ResultError if there is none."""
    if not key:
        raise ResultError(f"{info.id} is no job of a function", "only jobs of functions return a result")
    try:
        return read_result(texts, key)
    except PlainValueError as error:
        fix = _KEPT if in_cluster else "a result exists for as long as the output of its job"
        if not texts:
            fix = f"sys.exit and os._exit end rank 0 before its function returns; {fix}"
        raise ResultError(f"{info.id}: {error}", fix) from None
