"""The result of a function's job: from its end and from the output of rank 0."""

from __future__ import annotations

from collections.abc import Iterable

from windlass.client.errors import JobFailedError, ResultError
from windlass.client.function_call import read_result
from windlass.client.plain_values import PlainValueError
from windlass.client.records import JobInfo


def succeeded_or_error(info: JobInfo) -> JobInfo:
    """Returns the job if it has succeeded. Raises JobFailedError with its reason otherwise."""
    if info.succeeded:
        return info
    reason = info.message or info.reason or info.phase
    raise JobFailedError(f"{info.id} has failed: {reason}", f"see its output: windlass logs {info.id}", info.id)


def result_of_output(info: JobInfo, texts: Iterable[str]) -> object:
    """Returns the result in lines of output. Raises ResultError if there is none."""
    try:
        return read_result(texts)
    except PlainValueError as error:
        fix = "only jobs of functions return a result, for as long as their output exists"
        raise ResultError(f"{info.id}: {error}", fix) from None
