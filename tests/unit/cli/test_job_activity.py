"""Lines of `windlass doctor JOB` on a job that has not failed."""

from dataclasses import replace

import pytest

from windlass.cli.job_activity import activity_sections, headline
from windlass.server.diagnosis.job_activity import JobActivity, RankActivity

NOW = 1_700_000_000_000
JOB = JobActivity("train-7", "Running", 2, NOW, NOW - 600_000, ("n1", "n2"), "Running", "")
BEHIND = RankActivity(1, "n2", 71, step=40, phase="data", heartbeat_at=NOW - 300_000, printed_at=NOW - 301_000)
WAITS = RankActivity(
    0, "n1", 70, step=40, phase="backward", heartbeat_at=NOW - 299_000, waits_in="all_reduce number 3 of group tp"
)


def test_the_headline_of_a_running_job_has_attempt_time_and_nodes() -> None:
    found = headline(JOB)
    assert found.startswith("train-7 runs: attempt 2 since ")
    assert found.endswith(" (10m00s), on n1,n2")


@pytest.mark.parametrize(
    ("phase", "words", "reason"),
    [
        ("Queued", "train-7 waits", ": no quota (Waits)"),
        ("Suspended", "train-7 is suspended", ": no quota (Waits)"),
        ("Succeeded", "train-7 has succeeded", ""),
    ],
)
def test_the_headline_of_other_jobs_has_the_state_and_its_reason(phase: str, words: str, reason: str) -> None:
    found = headline(replace(JOB, phase=phase, attempt=0, nodes=(), reason="Waits", message="no\nquota"))
    assert found.startswith(f"{words} since ")
    assert found.endswith(f"(10m00s){reason}")


def test_ranks_that_stand_still_have_their_phases_and_ages() -> None:
    sections = activity_sections(replace(JOB, ranks=(BEHIND, WAITS), hang_detection="none", next_commands=["x"]))
    assert sections == {
        "last signs": [
            "no rank goes on: last heartbeat of any rank 4m59s ago",
            "rank 1 on n2: data of step 40 for 5m00s, last output 5m01s ago, pid 71",
            "rank 0 on n1: backward of step 40 for 4m59s, no output, waits in all_reduce number 3 of group tp, pid 70",
        ],
        "hang detection": ["none"],
        "next command": ["x"],
    }


def test_ranks_that_go_on_or_have_said_nothing_are_told_so() -> None:
    prints = RankActivity(0, "", printed_at=NOW - 2_000)
    assert activity_sections(replace(JOB, ranks=(prints,)))["last signs"][0] == "last output of any rank 2.0 s ago"
    silent = activity_sections(replace(JOB, ranks=(RankActivity(0, "n1", code=3),)))["last signs"]
    assert silent == [
        "no rank has sent a heartbeat or printed anything",
        "rank 0 on n1: no output, ended with exit code 3",
    ]


def test_of_many_ranks_the_last_ones_are_shown() -> None:
    ranks = [replace(BEHIND, rank=number) for number in range(20)]
    lines = activity_sections(replace(JOB, ranks=ranks))["last signs"]
    assert (len(lines), lines[-1]) == (10, "and 12 more ranks; -o json has all")


def test_a_member_that_is_restarted_in_place_stands_before_the_last_signs():
    told = "rank 1 (container main of digits-1) ends again and again: 3 restarts (CrashLoopBackOff)"
    sections = activity_sections(replace(JOB, ranks=(BEHIND,), member_wait=told))
    assert next(iter(sections.items())) == ("members", [told])
