"""The same rank that fails in the same way after the same step in each start."""

import struct
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from windlass.backends.local.paths import StatePaths
from windlass.core.model.diagnosed_cause import is_lasting
from windlass.diagnose.diagnosis import Advice
from windlass.diagnose.failures.engine import diagnose
from windlass.server.diagnosis.attempt_verdict import diagnosis_of, verdict_of
from windlass.server.diagnosis.evidence_request import EvidenceRequest, LoggedText
from windlass.server.diagnosis.failed_starts import FailedStart, failed_starts
from windlass.server.diagnosis.local_evidence import local_evidence
from windlass.server.diagnosis.repeated_failure import find_repeated_failure

NOON = 1_700_000_000_000
KILLED = "rank 1 (worker/0) on n1 killed by SIGKILL"


def change(at: int, event: str, before: str, after: str, message: str) -> dict[str, Any]:
    return {"at": NOON + at, "event": event, "before": before, "after": after, "message": message}


def attempts(count: int, end: str = KILLED) -> dict[str, Any]:
    """Details of a job whose attempts all end by one rank."""
    one = [
        change(0, "Admit", "Queued", "Admitted", "Admitted: starting on n1"),
        change(5, "MemberExited", "Running", "Restarting", f"Signal: {end}"),
        change(6, "MemberExited", "Restarting", "Restarting", "Signal: rank 0 (worker/0) on n1 killed by SIGTERM"),
    ]
    status = {"generation": count, "failed_generation": count, "last_failure": None}
    spec = {"launcher": "plain", "roles": []}
    return {"id": "t-1", "ranks": 2, "spec": spec, "status": status, "transitions": one * count, "tasks": []}


def write_steps(paths: StatePaths, attempt: int, steps: Sequence[int]) -> None:
    logs = paths.generation_logs("t-1", attempt)
    logs.mkdir(parents=True)
    (logs / "1.out").write_text("".join(f"step {step} loss 0.5\n" for step in steps))
    (logs / "1.out.idx").write_bytes(struct.pack("<QQ", NOON, 0))


def test_three_kills_after_the_same_step_point_at_memory(tmp_path: Path) -> None:
    paths = StatePaths(tmp_path)
    for attempt in (1, 2, 3):
        write_steps(paths, attempt, [1, 2, 3])
    cause = verdict_of(local_evidence(paths, attempts(3), 3), diagnose)
    assert cause.text == (
        "Rank 1 was ended by SIGKILL in each start, after step 3, 3 starts in a row. "
        "The likely sender is the kernel's out-of-memory killer."
    )
    assert (cause.rule, cause.equal_failures, is_lasting(cause)) == ("repeated-kill-at-step", 3, True)


@pytest.mark.parametrize("end", ["killed by SIGSEGV", "exited with code 7"])
def test_three_equal_ends_after_the_same_step_are_a_fault_of_the_program(end: str) -> None:
    starts = [FailedStart(attempt, 1, end, text="step 3\n") for attempt in (1, 2, 3)]
    cause = verdict_of(EvidenceRequest(3, starts=starts), diagnose)
    assert cause.text.startswith(
        f"Rank 1 fails at the same point of each start: {end} after step 3, 3 starts in a row."
    )
    assert (cause.rule, cause.equal_failures, is_lasting(cause)) == ("repeated-failure", 3, True)


def test_ends_after_other_steps_are_no_repetition(tmp_path: Path) -> None:
    paths = StatePaths(tmp_path)
    for attempt in (1, 2, 3):
        write_steps(paths, attempt, [1, attempt + 4])
    cause = verdict_of(local_evidence(paths, attempts(3), 3), diagnose)
    assert (cause.rule, cause.equal_failures) == ("signal-9", 0)


def test_two_equal_ends_are_counted_and_prove_nothing_yet(tmp_path: Path) -> None:
    paths = StatePaths(tmp_path)
    for attempt in (1, 2):
        write_steps(paths, attempt, [1, 2, 3])
    cause = verdict_of(local_evidence(paths, attempts(2), 2), diagnose)
    assert (cause.rule, cause.equal_failures) == ("signal-9", 2)


def test_a_known_cause_stays_and_tells_the_repetition() -> None:
    starts = [FailedStart(attempt, 1, "exited with code 1", text="step 7\n") for attempt in (1, 2, 3)]
    error = LoggedText("rank 1", "ModuleNotFoundError: No module named 'einops'\n", rank=1)
    cause = verdict_of(EvidenceRequest(3, texts=[error], starts=starts), diagnose)
    assert cause.rule == "package-missing"
    assert cause.text.endswith("einops; rank 1 failed after step 7 in 3 starts in a row.")
    assert cause.equal_failures == 3


def test_starts_by_the_agents_within_an_attempt_are_told_apart_by_time() -> None:
    details = attempts(1)
    message = "Running: recovered in place 1×, last: rank 1 (pid 7) killed by SIGKILL, back after 2.00 s"
    details["transitions"][1:1] = [change(4_000, "Recovered", "Running", "Running", message)]
    first, last = failed_starts(details, 1)
    assert (first.rank, first.end, first.until) == (1, "killed by SIGKILL", NOON + 2_500)
    assert (last.attempt, last.end, last.until) == (1, "killed by SIGKILL", None)


def test_lines_after_the_end_of_a_start_belong_to_the_next_one() -> None:
    text = "2023-11-14T22:13:20.000Z step 3\n2023-11-14T22:13:30.000Z step 4\n"
    starts = [FailedStart(1, 1, "killed by SIGKILL", until, text=text) for until in (NOON + 5_000, None)]
    assert find_repeated_failure(starts) is None
    assert find_repeated_failure([starts[0], starts[0]]) is not None


def test_without_steps_the_same_end_is_only_possible_evidence() -> None:
    starts = [FailedStart(attempt, 1, "exited with code 7", text="hello\n") for attempt in (1, 2, 3)]
    cause = verdict_of(EvidenceRequest(3, starts=starts), diagnose)
    assert (cause.rule, cause.equal_failures, is_lasting(cause)) == ("repeated-end", 0, False)


def test_repeated_kills_without_steps_point_at_memory_and_are_not_started_again_unchanged() -> None:
    starts = [FailedStart(attempt, 1, "killed by SIGKILL", text="hello\n") for attempt in (1, 2, 3)]
    cause = diagnosis_of(EvidenceRequest(3, starts=starts), diagnose).verdict
    assert cause is not None
    assert (cause.rule, cause.cause, cause.advice) == ("repeated-kill", "host-out-of-memory", Advice.STOP)
    assert "dmesg" in cause.command
    assert all(proof in cause.decide for proof in ("dmesg", "memory.events", "OOMKilled"))


@pytest.mark.parametrize("message", ["", "NodeLost: node n1 is lost", "rank 99999999999 killed by SIGKILL"])
def test_a_failure_without_a_rank_and_an_end_is_left_out(message: str) -> None:
    assert failed_starts(attempts(2, message), 2) == []
