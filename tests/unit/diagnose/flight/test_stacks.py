"""Stacks of ranks that hang: the place of the missing rank, and data loader and checkpoint told apart by it."""

import io
import json
from functools import partial
from pathlib import Path

import pytest
from recorded_calls import call, write_dumps

from windlass.diagnose.failures.engine import diagnose
from windlass.diagnose.failures.evidence import Evidence, LogSource
from windlass.diagnose.flight.dump_files import read_dump_files
from windlass.diagnose.flight.facts import read_hang_evidence
from windlass.diagnose.flight.program_frames import program_frame
from windlass.diagnose.flight.records import SourceFrame
from windlass.diagnose.flight.stack_files import parse_stack, read_stack_files

PACKAGES = "/env/lib/python3.11/site-packages"
THREAD = (
    'Thread 0x00007f821b7fe6c0 (most recent call first):\n  File "/env/lib/python3.11/threading.py", line 982 in run\n'
)


def stack(*frames: str) -> str:
    """Returns the output of faulthandler. `frames`: "FILE:LINE FUNCTION", from the innermost."""
    lines = []
    for frame in frames:
        place, _, function = frame.partition(" ")
        file, _, line = place.rpartition(":")
        lines.append(f'  File "{file}", line {line} in {function}\n')
    return f"{THREAD}\nCurrent thread 0x00007f830f9f7b80 (most recent call first):\n{''.join(lines)}"


LOADER = stack(f"{PACKAGES}/torch/utils/data/dataloader.py:1284 _get_data", "/job/train.py:31 main")
SAVE = stack(f"{PACKAGES}/torch/serialization.py:900 save", "/job/train.py:40 write", "/job/train.py:31 main")
COLLECTIVE = stack(f"{PACKAGES}/torch/distributed/distributed_c10d.py:3245 all_reduce", "/job/train.py:31 main")


def test_the_last_thread_of_the_newest_dump_is_the_main_thread() -> None:
    found = parse_stack(LOADER + SAVE, "stacks.txt")
    assert found is not None
    assert found.place == SourceFrame("write", "/job/train.py", 40)


@pytest.mark.parametrize("text", ["", "a line\n", THREAD[:20], "\x00" * 1000, 'File "' * 10_000])
def test_text_without_a_stack_is_none(text: str) -> None:
    assert parse_stack(text, "stacks.txt") is None


def test_a_library_of_the_program_is_its_frame_where_no_other_is() -> None:
    torch, trainer = (SourceFrame("f", f"{PACKAGES}/{name}.py", 1) for name in ("torch/x", "lightning/trainer"))
    assert program_frame([torch, trainer]) == trainer
    assert program_frame([torch, trainer, SourceFrame("main", "/job/train.py", 3)]) == SourceFrame(
        "main", "/job/train.py", 3
    )
    assert program_frame([torch]) is None


@pytest.mark.parametrize(
    ("text", "rules"),
    [
        (LOADER, ["flight-missing-rank", "stack-rank-in-data"]),
        (SAVE, ["flight-missing-rank", "stack-rank-in-checkpoint"]),
        (COLLECTIVE, ["flight-missing-rank"]),
        (stack("/job/train.py:31 main"), ["flight-missing-rank"]),
    ],
)
def test_the_stack_of_the_missing_rank_tells_its_work(tmp_path: Path, text: str, rules: list[str]) -> None:
    attempt = tmp_path / "attempt_0"
    attempt.mkdir()
    waits = [call("all_reduce", 1), call("all_reduce", 2, state="started")]
    paths = write_dumps(attempt, {8: waits, 9: waits[:1], 10: waits})
    for local in range(3):
        (attempt / str(local)).mkdir()
        paths.append(attempt / str(local) / "stacks.txt")
        paths[-1].write_text(text if local == 1 else COLLECTIVE)
    facts = read_hang_evidence(paths).facts
    assert [fact.rule for fact in facts] == rules
    assert {fact.rank for fact in facts} == {9}
    assert facts[0].values["now"].startswith("train.py:")


def write_attempt(node: Path, ranks: list[int], dumped: list[int]) -> list[Path]:
    """Writes what the agent of a node leaves: dumps of some of its ranks, and the stacks of all of them."""
    attempt = node / "attempt_0"
    attempt.mkdir(parents=True)
    paths = write_dumps(attempt, {rank: [call("all_reduce", 1)] for rank in dumped})
    for local in range(len(ranks)):
        paths.append(attempt / str(local) / "stacks.txt")
        paths[-1].parent.mkdir()
        paths[-1].write_text(stack(f"/job/train.py:{local + 1} main"))
    return paths


def places(paths: list[Path], statuses: dict[Path, list[int]]) -> dict[int, int]:
    """Returns the line of the program in the stack of each rank."""
    found = read_stack_files(paths, read_dump_files(paths).dumps, statuses)
    return {rank: each.place.line for rank, each in found.items() if each.place}


def test_stacks_of_a_node_belong_to_the_ranks_of_its_status_file_or_of_its_dumps(tmp_path: Path) -> None:
    paths = write_attempt(tmp_path / "node-0", [0, 1], [0]) + write_attempt(tmp_path / "node-1", [2, 3], [2, 3])
    assert places(paths, {tmp_path / "node-0" / "ranks.json": [0, 1]}) == {0: 1, 1: 2, 2: 1, 3: 2}


def test_stacks_whose_ranks_are_not_certain_are_left_out(tmp_path: Path) -> None:
    paths = write_attempt(tmp_path / "node-1", [2, 3], [3])  # rank 2 wrote no dump
    assert places(paths, {}) == {}
    assert places(paths, {tmp_path / "node-0" / "ranks.json": [0, 1]}) == {}
    assert places(paths, {tmp_path / "records" / "ranks.json": [2, 3]}) == {2: 1, 3: 2}


def test_the_place_of_a_rank_is_its_pending_operation_or_else_its_stack(tmp_path: Path) -> None:
    calls = {0: [call(number=1), call(number=2, state="scheduled", at="train.py:40 in main")], 1: [call(number=1)]}
    (tmp_path / "attempt_0").mkdir()
    paths = write_dumps(tmp_path / "attempt_0", calls)
    for local in (0, 1):
        path = tmp_path / "attempt_0" / str(local) / "stacks.txt"
        path.parent.mkdir()
        path.write_text(LOADER)
        paths.append(path)
    places = read_hang_evidence(paths, 2).places
    assert {rank: place.text for rank, place in places.items()} == {
        0: "all_reduce number 2 of group default_pg, called at train.py:40 in main",
        1: "train.py:31 in main",
    }
    assert places[1].written_ms == paths[-1].stat().st_mtime_ns // 1_000_000


def test_without_recorders_the_stacks_name_the_rank_that_is_outside_of_a_collective(tmp_path: Path) -> None:
    paths = write_attempt(tmp_path / "node-0", [0, 1], [])
    paths[0].write_text(COLLECTIVE)
    status = {"generation": 1, "at": 1, "ranks": [{"rank": 0, "pid": 5}, {"rank": 1, "pid": 6}]}
    (tmp_path / "node-0" / "ranks.json").write_text(json.dumps(status))
    facts = read_hang_evidence([*paths, tmp_path / "node-0" / "ranks.json"]).facts
    silence = "windlass agent: the run has failed: hang: no rank has printed anything for 8 s\n"
    log = LogSource("agent.log", partial(io.BytesIO, silence.encode()))
    verdict = diagnose(Evidence([log], 2, facts)).verdict
    assert verdict is not None
    assert (verdict.rule, verdict.rank) == ("stack-rank-outside-collective", 1)
    assert verdict.text == (
        "Rank 1 is outside of a collective, at train.py:2 in main, and the others wait for it. "
        "Waiting in all_reduce: rank 0."
    )
    alone = diagnose(Evidence([log], 2)).verdict
    assert alone is not None
    assert (alone.rule, alone.text) == (
        "hang-detected",
        "The job hangs: no rank has printed anything for 8 s. The hang detector stopped it.",
    )
