"""Heartbeats of ranks that stopped: the phase of the last rank tells data loader, storage and program apart."""

import json
import os
from pathlib import Path
from typing import Any

import pytest
from recorded_calls import BEGIN_NS, call, write_dumps

from windlass.diagnose.flight.facts import HangEvidence, read_hang_evidence
from windlass.diagnose.flight.heartbeats import RankStatus, find_last_rank
from windlass.diagnose.flight.status_files import read_status_files

BEGIN_MS = BEGIN_NS // 1_000_000
LATER_MS = BEGIN_MS + 640_000


def status(rank: int, step: int, phase: str, code: int | None = None) -> RankStatus:
    return RankStatus(rank, step, phase, BEGIN_MS, "ranks.json", code)


@pytest.mark.parametrize(
    ("last", "others", "rule"),
    [
        ((120, "data"), (120, "agree"), "heartbeat-rank-in-data"),
        ((120, "save"), (121, "agree"), "heartbeat-rank-in-save"),
        ((120, "backward"), (120, "agree"), "heartbeat-rank-behind"),
        ((119, "optimizer"), (120, "data"), "heartbeat-rank-behind"),
    ],
)
def test_the_phase_of_the_last_rank_decides(last: tuple[int, str], others: tuple[int, str], rule: str) -> None:
    finding = find_last_rank([status(0, *others), status(1, *last), status(2, *others)], LATER_MS)
    assert finding is not None
    assert (finding.rule, finding.ranks) == (rule, (1,))
    assert finding.text == (
        f"heartbeats: rank 1 is in {last[1]} of step {last[0]} for 640 s; other ranks: {others[1]} of step {others[0]}"
    )


def test_ranks_that_still_send_heartbeats_are_no_finding() -> None:
    assert find_last_rank([status(0, 5, "agree"), status(1, 5, "data")], BEGIN_MS + 20_000) is None


def test_ranks_at_one_place_are_no_finding_unless_a_recorder_blames_one_in_a_phase_of_the_host() -> None:
    ranks = [status(0, 5, "save"), status(1, 5, "save")]
    assert find_last_rank(ranks, LATER_MS) is None
    blamed = find_last_rank(ranks, LATER_MS, suspects={1})
    assert blamed is not None
    assert (blamed.rule, blamed.ranks) == ("heartbeat-rank-in-save", (1,))


def test_the_heartbeats_of_a_run_that_ended_well_are_no_finding() -> None:
    assert find_last_rank([status(0, 5, "save", code=0), status(1, 5, "agree", code=0)], LATER_MS) is None


def write_status(path: Path, ranks: list[Any], generation: int = 1, at_ms: int = LATER_MS) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps({"at": at_ms, "pid": 7, "generation": generation, "ranks": ranks}))
    return path


def beat(rank: int, phase: str, step: int = 120) -> dict[str, Any]:
    return {"rank": rank, "env": {"RANK": str(rank)}, "pid": 10 + rank, "step": step, "phase": phase, "at": BEGIN_MS}


def test_the_status_files_of_all_nodes_are_one_gang_and_the_newest_generation_counts(tmp_path: Path) -> None:
    paths = [
        write_status(tmp_path / "node-0" / "ranks.json", [beat(0, "agree"), {"rank": 1, "env": {}}], generation=3),
        write_status(tmp_path / "node-1" / "ranks.json", [beat(2, "data")], generation=3),
        write_status(tmp_path / "node-2" / "ranks.json", [beat(9, "save")], generation=2),
    ]
    assert [(each.rank, each.phase) for each in read_status_files(paths).ranks] == [(0, "agree"), (2, "data")]


@pytest.mark.parametrize("content", ["", "[]", '{"ranks": 3}', "{" * 100_000, "[" * 100_000, '{"ranks": "\x00"'])
def test_a_broken_status_file_is_one_line(tmp_path: Path, content: str) -> None:
    path = tmp_path / "ranks.json"
    path.write_text(content)
    (problem,) = read_status_files([path]).problems
    assert "is no rank status file: copy it again" in problem
    assert "\n" not in problem


@pytest.mark.parametrize("value", [None, "text", -1, 1.5, [], {}, 10**30, True])
@pytest.mark.parametrize("field", ["rank", "step", "phase", "at", "code"])
def test_a_rank_of_a_status_file_with_a_wrong_value_is_left_out_or_bounded(
    tmp_path: Path, field: str, value: object
) -> None:
    path = write_status(tmp_path / "ranks.json", [{**beat(0, "agree"), field: value}, beat(1, "data"), 7])
    ranks = {each.rank: each for each in read_status_files([path]).ranks}
    assert ranks[1] == RankStatus(1, 120, "data", BEGIN_MS, str(path))


def test_dumps_and_heartbeats_are_facts_with_their_evidence(tmp_path: Path) -> None:
    waits = [call("all_reduce", 1), call("all_reduce", 2, state="started", at="train.py:42 in backward")]
    dumps = write_dumps(tmp_path, {0: waits, 1: waits[:1], 2: waits})
    ranks = write_status(tmp_path / "ranks.json", [beat(0, "backward"), beat(1, "data"), beat(2, "backward")])
    log = tmp_path / "rank0.log"
    log.write_text("a line\n")
    found = read_hang_evidence([*dumps, ranks, log], expected_ranks=4)
    assert [(fact.rule, fact.rank) for fact in found.facts] == [
        ("flight-missing-rank", 1),
        ("heartbeat-rank-in-data", 1),
    ]
    missing, late = found.facts
    assert missing.values["op"] == "all_reduce"
    assert missing.evidence.text.startswith("flight recorder: rank 1 did not enter all_reduce, number 2")
    assert late.evidence.source == str(ranks)
    assert found.paths == {*dumps, ranks}
    assert found.gaps == ["flight recorder: no dump of rank 3"]


def test_a_pipe_is_left_to_the_reader_of_logs(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "nccl_trace_rank_0")
    os.mkfifo(tmp_path / "ranks.json")
    assert read_hang_evidence(tmp_path.iterdir()) == HangEvidence([], [], frozenset())
