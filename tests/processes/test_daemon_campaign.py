"""Fault schedules of a daemon: a few in `make test`, 300 in `make soak-daemon`."""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import campaign_results
import pytest
from daemon_campaign import Schedule
from daemon_witness import Asked, Entry, changed_answers, end_violations, rank_violations, repeated_work

FIRST = int(os.environ.get("WINDLASS_FIRST_SEED", "0"))
SCHEDULES = int(os.environ.get("WINDLASS_DAEMON_SCHEDULES", "5"))
RESULTS = os.environ.get("WINDLASS_CAMPAIGN_RESULTS")


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Path | None]:
    """A file system of 4 MiB in memory; None where mounting is not permitted."""
    folder = tmp_path / "disk"
    folder.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=4m,mode=700", "none", str(folder)]
    if subprocess.run(mount, capture_output=True, check=False).returncode:
        yield None
        return
    yield folder
    subprocess.run(["umount", "--lazy", str(folder)], check=True)


@pytest.mark.parametrize("seed", range(FIRST, FIRST + SCHEDULES))
def test_a_daemon_under_faults_loses_and_repeats_nothing(seed: int, tmp_path: Path, disk: Path | None) -> None:
    begun = time.monotonic()
    report = Schedule(seed, tmp_path, disk if seed % 3 == 0 else None).run()
    if RESULTS:
        part = {"first": seed, "schedules": 1, "faults": report.faults, "seconds": round(time.monotonic() - begun, 1)}
        campaign_results.append(Path(RESULTS), {**part, "violations": [seed] if report.violations else []})
    assert report.violations == [], f"seed {seed}: {dict(report.faults)}"


# --- the witness finds what it is there to find ------------------------------------------------------------

ONE = Asked("a", "plain", 2, acknowledged=True)
ROW = {
    "id": "a-1",
    "name": "a",
    "phase": "Succeeded",
    "reason": "Succeeded",
    "exit_code": 0,
    "attempts": 1,
    "message": "",
}
RAN = [Entry(what, "a-1", 1, rank, 0) for what in ("starts", "ends") for rank in (0, 1)]


def judge(rows: list[dict[str, object]], diary: list[Entry], asked: Asked = ONE) -> list[str]:
    return list(end_violations([asked], rows, diary, cancelled=set()))


def test_a_true_answer_is_no_violation() -> None:
    assert judge([ROW], RAN) == []


def test_lost_doubled_and_unknown_jobs_are_violations() -> None:
    assert judge([], RAN) == ["a is lost"]
    assert judge([], [], ONE._replace(acknowledged=False)) == []
    assert judge([ROW, ROW], RAN) == ["a exists 2 times"]
    assert judge([ROW, {**ROW, "name": "b"}], RAN) == ["b was never submitted"]


@pytest.mark.parametrize(
    ("row", "diary"),
    [
        (ROW, RAN[:3]),
        ({**ROW, "attempts": 2}, RAN),
        ({**ROW, "phase": "Failed", "reason": "ExitCode", "exit_code": 5}, RAN),
        ({**ROW, "phase": "Failed", "reason": "Cancelled", "exit_code": None}, RAN),
    ],
)
def test_a_wrong_end_is_a_violation(row: dict[str, object], diary: list[Entry]) -> None:
    (found,) = judge([row], diary)
    assert found.endswith("its ranks noted otherwise")


def test_a_rank_that_starts_twice_or_beside_another_is_a_violation() -> None:
    assert list(rank_violations([*RAN, RAN[0]])) == ["('a-1', 1, 0) started 2 times"]
    assert list(rank_violations([Entry("overlaps", "a-1", 2, 0, 0)])) == ["('a-1', 2, 0) runs beside an earlier one"]


def test_a_generation_after_a_success_is_a_violation() -> None:
    again = [entry._replace(generation=2) for entry in RAN]
    assert list(repeated_work([*RAN, *again], {"a-1": 2})) == ["a-1 runs generation 2 although it had succeeded"]
    assert list(repeated_work([*RAN[:3], *again], {"a-1": 2})) == []


def test_answers_that_change_are_violations() -> None:
    ended = {**ROW, "created_at": 1, "finished_at": 2}
    assert list(changed_answers([ended], [])) == ["a-1 is missing, and nothing was said"]
    assert list(changed_answers([ended], [{**ended, "exit_code": 3}])) == ["exit_code of a-1 was 0 and is 3"]
    assert list(changed_answers([{**ended, "finished_at": None}], [ended])) == []
