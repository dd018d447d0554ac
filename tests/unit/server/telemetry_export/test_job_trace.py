"""Spans of a job's life from its transitions."""

from itertools import count

import pytest

from windlass.backends.port import Transition
from windlass.core.lifecycle.transitions import create_state
from windlass.core.model.job import Job, Role
from windlass.server.telemetry_export.job_trace import (
    ATTEMPT,
    JOB,
    QUEUE,
    JobSpan,
    Milestone,
    Numbered,
    job_spans,
    split_submissions,
)

LIFE = """
1000 Arrived      -          Created
1000 Submitted    Created    Queued     Queued
4000 Admit        Queued     Admitted   Admitted: starting on n1
5000 Started      Admitted   Running    Running
9000 MemberExited Running    Restarting ExitCode: rank 0 on n1 exited with code 3
9500 GangGone     Restarting Admitted   Admitted: starting on n1
9900 Started      Admitted   Running    Running
9950 Diagnosed    Running    Running    attempt 1: Rank 0 ran out of GPU memory.
20000 MemberExited Running   Running    Completing: all members succeeded
20100 GangGone    Running    Succeeded  Succeeded
"""


def history(text: str, job_id: str = "digits-1") -> list[Numbered]:
    """Numbered transitions: time, event, phases before and after, message."""
    numbers = count(1)
    rows = (line.split(maxsplit=4) for line in text.strip().splitlines())
    return [
        (next(numbers), Transition(job_id, int(at), event, before.strip("-"), after, "".join(message)))
        for at, event, before, after, *message in rows
    ]


def spans(text: str, *milestones: Milestone) -> dict[str, list[JobSpan]]:
    found: dict[str, list[JobSpan]] = {JOB: [], QUEUE: [], ATTEMPT: []}
    for span in job_spans(history(text), None, milestones):
        found[span.name].append(span)
    return found


def test_a_restarted_job_has_a_wait_two_attempts_and_one_span_of_its_own():
    found = spans(LIFE)
    (job,), (wait,), (first, second) = found[JOB], found[QUEUE], found[ATTEMPT]
    assert (job.start, job.end, job.error, job.closed_by) == (1000, 20100, "", 10)
    assert (wait.start, wait.end, wait.closed_by) == (1000, 4000, 3)
    assert (first.start, first.end, first.error) == (4000, 9500, "rank 0 on n1 exited with code 3")
    assert (second.start, second.end, second.error) == (9500, 20100, "")
    assert {wait.parent_id, first.parent_id, second.parent_id} == {job.span_id}
    assert job.parent_id is None
    assert len({span.span_id for span in (job, wait, first, second)}) == 4


def test_a_failure_has_its_verdict_in_the_attempt_and_in_the_job():
    found = spans(LIFE)
    both = (found[ATTEMPT][0], found[JOB][0])
    failures = [event for span in both for event in span.events if event.name == "failure"]
    assert [dict(each.attributes) for each in failures] == [
        {
            "error.type": "ExitCode",
            "exception.message": "rank 0 on n1 exited with code 3",
            "windlass.verdict": "Rank 0 ran out of GPU memory.",
        }
    ] * 2
    assert failures[0].at == 9000
    assert not found[ATTEMPT][0].awaits_verdict


def test_a_failure_without_a_verdict_awaits_one():
    early = "\n".join(LIFE.strip().splitlines()[:7])
    (first,) = spans(early)[ATTEMPT]
    assert first.awaits_verdict
    assert not spans(early)[JOB]


def test_spans_have_the_same_ids_however_much_of_the_life_is_known():
    lines = LIFE.strip().splitlines()
    complete = {(span.name, span.start): span.span_id for span in job_spans(history(LIFE), None)}
    for known in range(1, len(lines)):
        for span in job_spans(history("\n".join(lines[:known])), None):
            assert complete[span.name, span.start] == span.span_id


def test_steps_and_checkpoints_are_events_of_their_attempt():
    found = spans(LIFE, Milestone(6000, "first step", 1), Milestone(15000, "checkpoint", 40))
    first, second = ([event.name for event in span.events] for span in found[ATTEMPT])
    assert first == ["running", "first step", "failure"]
    assert second == ["running", "checkpoint"]


@pytest.mark.parametrize(
    ("end", "reason", "error"),
    [
        ("Failed Cancelled: by ada", "Cancelled", ""),
        ("Failed WalltimeExceeded: ran longer than 1h", "WalltimeExceeded", "ran longer than 1h"),
        ("Queued Preempted: by team/big", "Preempted", ""),
        ("Suspended Suspended: by ada", "Suspended", ""),
        ("Queued NodeLost: n1 is gone", "NodeLost", "n1 is gone"),
    ],
)
def test_only_failures_are_errors(end: str, reason: str, error: str):
    text = "\n".join([*LIFE.strip().splitlines()[:4], f"9000 GangGone Running {end}"])
    (attempt,) = spans(text)[ATTEMPT]
    assert (attempt.attributes["windlass.attempt.end"], attempt.error) == (reason, error)


def test_a_cancelled_job_is_no_error_and_a_refused_one_has_no_attempt():
    (job,) = spans("1 Arrived - Created\n1 Submitted Created Queued Queued\n5 Cancel Queued Failed Cancelled: by x")[
        JOB
    ]
    assert (job.error, job.attributes["windlass.job.phase"]) == ("", "Cancelled")
    found = spans("1 Arrived - Created\n1 Refused Created Failed Misconfigured: 9 GPUs, and no node has more than 8")
    assert (found[ATTEMPT], found[QUEUE]) == ([], [])
    assert found[JOB][0].error.startswith("9 GPUs")


def test_an_id_that_is_used_again_begins_another_trace():
    again = [(number + 100, each) for number, each in history(LIFE.replace("1000 ", "50000 ", 1))]
    first, second = split_submissions([*history(LIFE), *again])
    assert job_spans(first, None)[0].trace_id != job_spans(second, None)[0].trace_id


def test_a_life_whose_begin_is_not_recorded_has_the_trace_of_the_whole_one():
    job = Job("digits", (Role("worker", replicas=2, command=("python", "train.py")),), queue="research", user="ada")
    state = create_state("digits-1", 1, job, 1000)
    known = job_spans(history(LIFE)[3:], state)
    (whole,) = [span for span in known if span.name == JOB]
    assert whole.trace_id == job_spans(history(LIFE), None)[-1].trace_id
    assert whole.attributes["windlass.queue.name"] == "research"
    assert whole.attributes["windlass.job.ranks"] == 2
    assert whole.start == 1000


def test_any_part_of_any_life_has_spans_that_end_after_they_begin():
    lines = history(LIFE)
    for begin in range(len(lines)):
        for end in range(begin, len(lines) + 1):
            assert all(span.start <= span.end for span in job_spans(lines[begin:end], None))
