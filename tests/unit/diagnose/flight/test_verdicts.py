"""One message, many causes: ranks 0, 1 and 3 report a timeout, and dumps, heartbeats and stacks tell why."""

from __future__ import annotations

import io
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import yaml
from recorded_calls import BEGIN_NS, DEFAULT, call, write_dumps
from test_stacks import LOADER, SAVE

from windlass.cli.failure_report import diagnose_logs
from windlass.diagnose.diagnosis import Diagnosis, RootCause
from windlass.diagnose.failures.engine import diagnose
from windlass.diagnose.failures.evidence import Evidence, LogSource
from windlass.diagnose.flight.facts import read_hang_evidence

WORLD = (0, 1, 2, 3)
LATE = 2
"""The rank that reports no timeout."""
TIMEOUT = (
    "[rank{rank}]:[E ProcessGroupNCCL.cpp:607] [Rank {rank}] Watchdog caught collective operation timeout: "
    "WorkNCCL(SeqNum=812, OpType=ALLREDUCE, NumelIn=8, NumelOut=8, Timeout(ms)=600000) ran for 600012 milliseconds "
    "before timing out."
)
Calls = Sequence[Mapping[str, Any]]
DONE = [call("all_reduce", number) for number in range(800, 812)]
WAITS = [*DONE, call("all_reduce", 812, state="started", at="train.py:42 in backward")]
MISSING = {rank: DONE if rank == LATE else WAITS for rank in WORLD}
STALLED = dict.fromkeys(WORLD, WAITS)
GONE = {rank: WAITS for rank in WORLD if rank != LATE}
OTHER = {**STALLED, LATE: [*DONE, call("broadcast", 812, state="started", at="eval.py:7 in evaluate")]}
SMALLER = {**STALLED, LATE: [*DONE, call("all_reduce", 812, sizes=(4,), state="started", at="train.py:42 in backward")]}


@dataclass
class Case:
    """Context of the timeout. `beats`: phase of each rank; `stack`: of the late rank; `logs`: further lines by file."""

    cause: str
    dumps: Mapping[int, Calls] = field(default_factory=dict)
    beats: Mapping[int, tuple[int, str]] = field(default_factory=dict)
    stack: str = ""
    logs: Mapping[str, Sequence[str]] = field(default_factory=dict)
    rank: int | None = LATE
    says: str = ""


def beats(late: tuple[int, str], others: tuple[int, str]) -> dict[int, tuple[int, str]]:
    return {rank: late if rank == LATE else others for rank in WORLD}


CASES = {
    "a rank does not enter the collective": Case(
        "nccl-laggard-rank", MISSING, says="Rank 2 did not enter all_reduce, sequence number 812 of group"
    ),
    "its heartbeat says data": Case("dataloader-stuck", MISSING, beats((91, "data"), (91, "backward"))),
    "its heartbeat says save": Case("storage-slow-or-hung", MISSING, beats((91, "save"), (92, "backward"))),
    "its heartbeat says forward": Case("nccl-laggard-rank", MISSING, beats((91, "forward"), (91, "backward"))),
    "its stack is in the data loader": Case("dataloader-stuck", MISSING, stack=LOADER, says="at train.py:31 in main"),
    "its stack is in a checkpoint": Case("storage-slow-or-hung", MISSING, stack=SAVE, says="at train.py:40 in write"),
    "its log says that its GPU has no memory left": Case(
        "cuda-out-of-memory",
        MISSING,
        logs={"rank2.log": ["torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.50 GiB. GPU 0 has"]},
    ),
    "its data loader timed out": Case(
        "dataloader-stuck", MISSING, logs={"rank2.log": ["RuntimeError: DataLoader timed out after 900 seconds"]}
    ),
    "it calls another collective": Case(
        "nccl-divergent-collectives", OTHER, says="Rank 2 called broadcast [8] Float at eval.py:7 in evaluate"
    ),
    "it calls the collective with another size": Case("nccl-divergent-collectives", SMALLER, says="differ in size"),
    "all ranks entered": Case("nccl-transport-stalled", STALLED, rank=None, says="not complete on rank 0, 1, 2, 3"),
    "all ranks entered, and a GPU fell off the bus": Case(
        "gpu-fell-off-bus",
        STALLED,
        logs={"dmesg.log": ["kernel: NVRM: Xid (PCI:0000:3b:00): 79, pid=1, GPU has fallen off the bus."]},
        rank=None,
    ),
    "all ranks entered, and InfiniBand reports errors": Case(
        "nccl-ib-transport",
        STALLED,
        logs={"rank0.log": ["NCCL WARN NET/IB: Got completion from peer 10.0.0.2<4> with status=12 opcode=0 len=0"]},
        rank=None,
    ),
    "it left no dump": Case("nccl-laggard-rank", GONE, says="rank 2 left no flight recorder"),
    "it left no dump because the kernel killed it": Case(
        "host-out-of-memory",
        GONE,
        logs={"dmesg.log": ["kernel: Out of memory: Killed process 4711 (python) total-vm:100kB, anon-rss:64kB"]},
        rank=None,
    ),
}


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_the_context_decides(case: Case, tmp_path: Path) -> None:
    verdict = diagnosis_of(case, tmp_path).verdict
    assert isinstance(verdict, RootCause)
    assert (verdict.cause, case.rank in (None, verdict.rank)) == (case.cause, True)
    assert case.says in verdict.text


def test_without_recorders_the_verdict_is_no_more_than_possible(tmp_path: Path) -> None:
    verdict = diagnosis_of(Case("nccl-laggard-rank"), tmp_path).verdict
    assert verdict is not None
    assert (verdict.rule, verdict.certainty) == ("nccl-watchdog-timeout", "possible")


SCENARIOS = yaml.safe_load(Path(__file__).parent.with_name("scenarios.yaml").read_text(encoding="utf-8"))


@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda scenario: scenario["name"])
def test_the_missing_rank_is_no_reason_where_the_logs_have_one(scenario: dict[str, Any], tmp_path: Path) -> None:
    logs = [LogSource(name, partial(io.BytesIO, "\n".join(lines).encode())) for name, lines in scenario["logs"].items()]
    facts = read_hang_evidence(write_dumps(tmp_path, MISSING)).facts
    alone, verdict = diagnose(Evidence(logs)).verdict, diagnose(Evidence(logs, facts=facts)).verdict
    assert alone is None or (verdict and verdict.cause) == alone.cause


def diagnosis_of(case: Case, folder: Path) -> Diagnosis:
    """Diagnosis of the files of a case, as `windlass doctor FOLDER` reads them."""
    attempt = folder / "attempt_0"
    attempt.mkdir()
    paths = write_dumps(attempt, case.dumps, {DEFAULT: list(WORLD)})
    if case.beats:
        paths.append(write_beats(folder / "ranks.json", case.beats))
    if case.stack:
        paths.append(attempt / str(LATE) / "stacks.txt")
        paths[-1].parent.mkdir()
        paths[-1].write_text(case.stack)
    lines = {f"rank{rank}.log": [TIMEOUT.format(rank=rank)] for rank in WORLD if rank != LATE}
    for name, more in case.logs.items():
        lines[name] = [*more, *lines.get(name, [])]
    logs = [LogSource(name, partial(io.BytesIO, "\n".join(each).encode())) for name, each in lines.items()]
    return diagnose(Evidence(logs, facts=read_hang_evidence(paths).facts))


def write_beats(path: Path, phases: Mapping[int, tuple[int, str]]) -> Path:
    begin = BEGIN_NS // 1_000_000
    ranks = [{"rank": rank, "step": step, "phase": phase, "at": begin} for rank, (step, phase) in phases.items()]
    path.write_text(json.dumps({"at": begin + 600_000, "generation": 1, "ranks": ranks}))
    return path


def test_doctor_finds_the_dumps_among_the_files_of_a_folder(tmp_path: Path) -> None:
    write_dumps(tmp_path, MISSING)
    (tmp_path / "nccl_trace_rank_3").write_bytes(b"\x80\x02}X\x09\x00\x00\x00pg_configcos\nsystem\n.")
    (tmp_path / "rank0.log").write_text(TIMEOUT.format(rank=0))
    found = diagnose_logs([str(tmp_path)], show_secrets=False)
    assert found.verdict is not None
    assert (found.verdict.rule, found.verdict.rank) == ("flight-missing-rank", LATE)
    assert [line.source for line in found.verdict.evidence] == [
        str(tmp_path / each) for each in ("nccl_trace_rank_0", "rank0.log")
    ]
    (broken,) = [gap for gap in found.unseen if "may run code" in gap]
    assert broken.startswith(str(tmp_path / "nccl_trace_rank_3"))
    assert "flight recorder: no dump of rank 3" in found.unseen


def test_dumps_of_a_job_that_runs_are_no_verdict(tmp_path: Path) -> None:
    write_dumps(tmp_path, dict.fromkeys(WORLD, DONE))
    assert diagnose_logs([str(tmp_path)], show_secrets=False) == Diagnosis(None, [], [])
