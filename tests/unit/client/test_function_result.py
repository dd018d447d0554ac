from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

import windlass
from windlass.client.function_call import result_lines
from windlass.client.function_result import (
    carries_result,
    expects_verdict,
    result_of_output,
    selection_of_result,
    succeeded_or_error,
)
from windlass.client.records import JobInfo, OutputLine
from windlass.server.operator.history import recorder

KEY = "0a" * 16
JOB = JobInfo("team/train", "train", "Succeeded")


def stored(result: object, pods: int) -> list[str]:
    """Lines of the log end that an operator stores of a pod which has printed a result."""
    text = "\n".join(result_lines(result, KEY)) + "\n"
    return text[-recorder._max_log_bytes(pods) :].splitlines()


@pytest.mark.parametrize(("size", "pods"), [(62_000, 64), (1_900, 2048)])
def test_a_result_of_the_documented_size_survives_its_pod(size: int, pods: int):
    result = "x" * size
    assert result_of_output(JOB, stored(result, pods), KEY, in_cluster=True) == result


@pytest.mark.parametrize(
    ("size", "pods", "some"), [(100_000, 1, ": only 17 of its 26 lines still exist"), (3_000, 2048, "")]
)
def test_of_a_larger_one_the_error_has_the_limit(size: int, pods: int, some: str):
    expected = f"team/train: the output of rank 0 holds no whole result{some}\nof a deleted pod only the last 64 KiB"
    with pytest.raises(windlass.ResultError, match=expected):
        result_of_output(JOB, stored("x" * size, pods), KEY, in_cluster=True)


def test_a_rank_that_ends_before_its_function_returns_has_no_result():
    with pytest.raises(windlass.ResultError, match=r"sys\.exit and os\._exit end rank 0 before"):
        result_of_output(JOB, [], KEY, in_cluster=False)


FAILED = replace(JOB, phase="Failed", message="rank 0 exited with code 1", attempts=1)


def test_the_error_of_a_failed_job_has_the_verdict_on_its_failure():
    text = "Rank 0 raised an exception: ValueError: bad x: 3"
    with pytest.raises(windlass.JobFailedError, match=f"exited with code 1\n{text}") as failed:
        succeeded_or_error(replace(FAILED, diagnosis={"rule": "exception", "text": text}))
    assert failed.value.verdict == text


@pytest.mark.parametrize(
    ("info", "expected"),
    [
        (FAILED, True),
        (replace(FAILED, diagnosis={"rule": "", "text": "no message says why"}), False),
        (replace(FAILED, reason="Cancelled"), False),
        (replace(FAILED, attempts=0), False),
        (JOB, False),
    ],
)
def test_a_verdict_is_expected_of_a_job_that_ran_and_failed(info: JobInfo, *, expected: bool):
    assert expects_verdict(info) is expected


def test_a_job_without_a_call_has_no_result():
    with pytest.raises(windlass.ResultError, match="team/train is no job of a function"):
        result_of_output(JOB, result_lines(3, KEY), "", in_cluster=False)


@pytest.mark.parametrize(("elastic", "ranks"), [(None, (0,)), ([1, 4], None)])
def test_the_result_of_an_elastic_job_may_be_in_the_output_of_any_replica(elastic: object, ranks: object):
    details: Mapping[str, Any] = {"elastic": elastic}
    assert selection_of_result(JobInfo("a", "a", "Succeeded", details=details)).ranks == ranks


def test_a_line_on_the_standard_error_is_no_part_of_a_result():
    [text] = result_lines(3, KEY)
    found = [carries_result(OutputLine("a", 1, 0, stream, 0, text), KEY) for stream in ("out", "err")]
    assert found == [True, False]
