"""Present activity of a job: which rank is furthest behind, when the hang detector acts, and what to run next."""

from pathlib import Path
from typing import Any

import pytest

from windlass.diagnose.flight.rank_places import RankPlace
from windlass.server.diagnosis.evidence_request import LoggedText
from windlass.server.diagnosis.hang_deadline import describe_hang_deadline
from windlass.server.diagnosis.job_activity import JobActivity, job_activity
from windlass.server.diagnosis.stack_signal import writes_stack

NOW = 1_700_000_000_000


def rank(number: int, **seen: Any) -> dict[str, Any]:
    return {"rank": number, "node": f"n{number}", "pid": 100 + number, "code": None, **seen}


def beats(number: int, step: int, phase: str, age_s: int) -> dict[str, Any]:
    return rank(number, step=step, phase=phase, at=NOW - age_s * 1000, printed_at=NOW - age_s * 1000)


def details(*ranks: dict[str, Any], phase: str = "Running", launcher: str = "agent", **more: Any) -> dict[str, Any]:
    return {
        "id": "train-7",
        "phase": phase,
        "reason": "",
        "message": "",
        "nodes": ["n0", "n1"],
        "running_since": NOW - 60_000,
        "finished_at": NOW - 1_000,
        "status": {"generation": more.pop("attempt", 1)},
        "spec": {"launcher": launcher, "roles": [{"env": more.pop("env", {})}]},
        "tasks": [{**rank(number), "generation": generation} for generation in (1, 2) for number in (0, 1)],
        "progress": {"ranks": list(ranks)} if ranks else None,
        **more,
    }


def order(job: JobActivity) -> list[int]:
    return [each.rank for each in job.ranks]


def test_the_rank_that_is_furthest_behind_is_first() -> None:
    same_step = details(beats(0, 10, "backward", 40), beats(1, 10, "outside", 40), beats(2, 9, "agree", 1))
    assert order(job_activity(same_step, {}, (), NOW)) == [2, 1, 0]
    without_beats = details(rank(0, printed_at=NOW), rank(1, printed_at=NOW - 9), rank(2, printed_at=None))
    assert order(job_activity(without_beats, {}, (), NOW)) == [2, 1, 0]
    not_started = details(beats(0, 10, "backward", 40), rank(1, printed_at=NOW))
    assert order(job_activity(not_started, {}, (), NOW)) == [1, 0]


def test_a_place_that_is_older_than_the_last_heartbeat_is_left_out() -> None:
    seen = details(beats(0, 10, "backward", 40), beats(1, 10, "data", 40))
    places = {0: RankPlace("all_reduce number 3", NOW - 10_000), 1: RankPlace("old.py:3 in main", NOW - 50_000)}
    waits = {each.rank: each.waits_in for each in job_activity(seen, places, (), NOW).ranks}
    assert waits == {0: "all_reduce number 3", 1: ""}


def test_without_reports_the_logs_of_pods_tell_the_last_output() -> None:
    seen = details(launcher="torchrun", attempt=2)
    log = LoggedText("pod p1", "2023-11-14T22:13:10.5Z step 1\n2023-11-14T22:13:15Z step 2\n", 1, "n1")
    found = job_activity(seen, {}, [log], NOW)
    assert [(each.rank, each.printed_at) for each in found.ranks] == [(0, None), (1, NOW - 5_000)]
    assert found.since == NOW - 60_000


@pytest.mark.parametrize(
    ("phase", "attempt", "commands"),
    [
        ("Queued", 0, ["windlass why train-7 --on prod"]),
        ("Admitted", 1, ["windlass why train-7 --on prod"]),
        ("Suspended", 1, ["windlass resume train-7 --on prod"]),
        ("Succeeded", 1, ["windlass logs train-7 --on prod"]),
        ("Succeeded", 3, ["windlass doctor train-7 --attempt 2 --on prod"]),
    ],
)
def test_the_next_command_follows_from_the_state(phase: str, attempt: int, commands: list[str]) -> None:
    found = job_activity(details(phase=phase, attempt=attempt), {}, (), NOW, " --on prod")
    assert (found.next_commands, found.ranks, found.hang_detection) == (commands, [], "")


def test_of_a_job_that_runs_the_log_of_the_last_rank_and_its_times_come_next() -> None:
    found = job_activity(details(beats(0, 10, "backward", 4), beats(1, 9, "data", 4)), {}, (), NOW)
    assert found.next_commands == ["windlass logs train-7 --rank 1 --tail 20", "windlass doctor slow train-7"]


def test_one_command_lets_all_ranks_without_a_known_place_write_their_stacks() -> None:
    seen = details(beats(0, 10, "backward", 40), beats(1, 9, "data", 40), rank(2, code=1), rank(3, printed_at=NOW))

    def first(*places: int, catches: tuple[int, ...] = (100, 101, 102, 103)) -> str:
        known = {number: RankPlace("train.py:3 in main", NOW) for number in places}
        return job_activity(seen, known, (), NOW, has_stack=lambda pid: pid in catches).next_commands[0]

    assert first() == "kill -USR2 103 101 100 && sleep 1 && windlass doctor train-7"
    assert first(0, 3) == "kill -USR2 101 && sleep 1 && windlass doctor train-7"
    assert first(catches=(100,)) == "kill -USR2 100 && sleep 1 && windlass doctor train-7"
    assert first(0, 1, 3).startswith("windlass logs train-7")
    assert first(catches=()).startswith("windlass logs train-7")


@pytest.mark.parametrize(
    ("caught", "is_caught"), [("0000000000000800", True), ("00000000000007ff", False), (None, False)]
)
def test_the_kernel_tells_which_signals_a_process_catches(tmp_path: Path, caught: str | None, is_caught: bool) -> None:
    if caught is not None:
        (tmp_path / "7").mkdir()
        (tmp_path / "7" / "status").write_text(f"Name:\tpython\nSigIgn:\t0000000000000800\nSigCgt:\t{caught}\n")
    assert writes_stack(7, tmp_path) is is_caught


@pytest.mark.parametrize(
    ("phase", "env", "text"),
    [
        ("data", {}, "in the phase data for 120 s"),
        ("outside", {}, "in the phase outside for 1800 s"),
        ("agree", {}, "in the phase agree for 60 s"),
        ("start", {}, "in the phase start for 600 s"),
        ("start", {"WINDLASS_HANG": "start=0"}, "no limit for the phase start; --env WINDLASS_HANG=start=SECONDS"),
        ("data", {"WINDLASS_HANG": "floor=300"}, "in the phase data for 300 s"),
        ("data", {"WINDLASS_HANG": "no=such,setting"}, "in the phase data for 120 s"),
        (None, {}, "no limit for ranks without heartbeats; --env WINDLASS_HANG=silence=600"),
        (None, {"WINDLASS_HANG": "silence=90"}, "the agents act after 90 s without output"),
    ],
)
def test_the_hang_detector_has_the_limit_of_the_phase(phase: str | None, env: dict[str, str], text: str) -> None:
    assert text in describe_hang_deadline(details(env=env), phase)


def test_only_agents_detect_hangs() -> None:
    assert describe_hang_deadline(details(launcher="torchrun"), None) == (
        "none with the launcher torchrun; agents have it: --launcher agent"
    )
