"""All signatures are matched in linear time, whatever a line contains."""

import time

import pytest
import re2
from hypothesis import given, settings
from hypothesis import strategies as st

from windlass.diagnose.failures.failure_rules import load_rules
from windlass.diagnose.failures.signatures import every_signature

SIGNATURES = [text for rule in load_rules().values() for text in rule.signatures]
REPEATED = (
    b"loss ",
    b"a.",
    b"NCCL WARN NET/",
    b"Error: ",
    b"\\x00",
    b"'",
    b"(",
    b"0/5 nodes are available: ",
    b"\xff\xfe",
)


def test_every_signature_is_one_that_re2_compiles() -> None:
    assert [text for text in SIGNATURES if not re2.compile(text)] == []


def test_the_values_of_a_match_are_those_of_its_groups() -> None:
    [match] = [
        match
        for match in every_signature().matches(b"RuntimeError: DataLoader timed out after 900 seconds")
        if match.rule == "dataloader-stuck"
    ]
    assert match.values == {"seconds": "900"}


def test_a_message_bound_to_the_start_of_a_line_may_match_after_a_prefix() -> None:
    for prefix in (b"[rank0]: ", b"[1,3]<stderr>:", b"2026-03-02T11:20:05Z ", b"7: ", b"worker-1: "):
        assert every_signature().may_match(prefix + b"Killed")


@pytest.mark.parametrize("piece", REPEATED)
def test_twice_the_text_takes_about_twice_the_time(piece: bytes) -> None:
    every_signature().may_match(piece * 50_000)  # builds the states
    assert cpu_time(piece * 400_000) < 8 * cpu_time(piece * 100_000) + 0.05


def cpu_time(text: bytes) -> float:
    start = time.thread_time()
    every_signature().may_match(text)
    return time.thread_time() - start


@settings(max_examples=50)
@given(st.binary(max_size=2_000))
def test_no_line_makes_the_matching_fail(line: bytes) -> None:
    every_signature().matches(line)


def test_lines_of_progress_are_not_read_one_by_one() -> None:
    """A signature that may match them all makes the scan of a healthy log ten times as slow."""
    for step in range(500):
        clock = f"2026-03-02 11:20:{step % 60:02},{step % 10}00"
        line = f"{clock} INFO trainer: step {step} loss: 2.{step} tokens/s {12000 + step}"
        assert not every_signature().may_match(line.encode()), line
