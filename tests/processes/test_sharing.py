"""Several people on one cluster, as they meet it: real daemons, real processes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from terminal import crash, daemon, facts, ok, phase, until

from windlass.core.scheduler import schedule
from windlass.jobs.snapshot_file import decisions_of, read_snapshot

SLEEP = ("--", "sleep", "60")
CLUSTER = """\
nodes: [{name: n, count: 2, gpus: 4}]
queues:
- {name: lab}
- {name: vision, parent: lab, quota: {gpu: 4}}
- {name: speech, parent: lab, quota: {gpu: 4}}
policy: {order: windlass, min_runtime: 0s, resize_interval: 0s}
"""


@pytest.fixture
def cluster(tmp_path: Path) -> str:
    file = tmp_path / "cluster.yaml"
    file.write_text(CLUSTER)
    return str(file)


def submit(state: Path, name: str, *words: str, command: tuple[str, ...] = SLEEP) -> str:
    return ok(state, "submit", "--name", name, *words, *command).strip()


def waits(state: Path, job: str) -> Any:
    return phase(state, job, "Queued")


# --- backfill -----------------------------------------------------------------------------------------


def test_a_short_job_starts_in_the_gap_before_a_large_one_and_a_long_one_does_not(state: Path):
    with daemon(state, "--local-nodes", "1", "--local-gpus", "4"):
        first = submit(state, "first", "-G", "3", "--time", "10m")
        phase(state, first, "Running")
        large = submit(state, "large", "-G", "4", "--time", "10m")
        assert waits(state, large)["eta"]
        short = submit(state, "short", "-G", "1", "--time", "5m")
        phase(state, short, "Running")
        ok(state, "cancel", short)
        phase(state, short, "Failed")
        for name, time in (("long", ("--time", "1h")), ("endless", ())):
            waits(state, submit(state, name, "-G", "1", *time))
        ok(state, "cancel", first)
        phase(state, large, "Running")


def test_the_queue_is_in_the_order_in_which_it_starts(state: Path):
    with daemon(state, "--local-nodes", "1", "--local-gpus", "2", "--policy", "fifo"):
        submit(state, "holds", "-G", "2")
        names = [submit(state, name, "-G", "2") for name in ("b", "a", "c")]
        assert [job["id"] for job in until(state, "len(it) == 4", "queue")[1:]] == names


# --- reservations -------------------------------------------------------------------------------------


def test_nodes_are_kept_for_a_queue_and_stay_so_when_the_daemon_is_killed(state: Path, cluster: str):
    with daemon(state, "--cluster", cluster):
        made = facts(state, "reserve", "exam", "-N", "1", "--from", "4s", "--for", "1h", "--queue", "speech")
        (kept,) = made["nodes"]
        endless = submit(state, "endless", "--queue", "vision", "-G", "4")
        on = phase(state, endless, "Running")["nodes"]
        assert kept not in on
        second = submit(state, "second", "--queue", "vision", "-G", "4")
        waits(state, second)
        # it is on disk: a daemon that was killed comes back with it, and it begins at its time
        crash(state)
        ok(state, "up", "-d")
        assert [each["name"] for each in facts(state, "reserve")] == ["exam"]
        mine = submit(state, "mine", "--queue", "speech", "-G", "4")
        assert phase(state, mine, "Running")["nodes"] == [kept]
        waits(state, second)
        ok(state, "cancel", mine)
        phase(state, mine, "Failed")
        waits(state, second)
        assert "deleted" in ok(state, "reserve", "exam", "--delete")
        phase(state, second, "Running")


def test_a_job_that_ends_in_time_may_use_nodes_that_are_reserved_for_later(state: Path):
    with daemon(state, "--local-nodes", "1", "--local-gpus", "4"):
        ok(state, "reserve", "repair", "--nodes", "n1", "--from", "1h", "--for", "1h", "--maintenance")
        phase(state, submit(state, "short", "-G", "1", "--time", "30m"), "Running")
        verdict = waits(state, submit(state, "long", "-G", "1", "--time", "2h"))
        assert "repair" in verdict["message"]


# --- why ----------------------------------------------------------------------------------------------


def test_what_why_says_would_start_now_starts(state: Path):
    with daemon(state, "--local-nodes", "2", "--local-gpus", "4"):
        phase(state, submit(state, "first", "-N", "2", "-G", "3"), "Running")
        waits(state, submit(state, "wide", "-G", "2"))
        assert "wide-2 with gpus=1 would start now" in ok(state, "why", "wide", "--what-if", "gpus=1")
        assert "would wait" in ok(state, "why", "wide", "--what-if", "time=1h")
        assert facts(state, "why")[0]["would_start"] == ["as 2×1 gpu"]
        ok(state, "cancel", "wide")
        phase(state, submit(state, "wide", "-N", "2", "-G", "1"), "Running")


# --- snapshots ----------------------------------------------------------------------------------------


def test_every_plan_of_a_daemon_is_made_again_from_its_snapshot(state: Path, cluster: str, tmp_path: Path):
    """The world that starts processes and whoever reads its snapshots take the same decisions."""
    seen: dict[int, Any] = {}

    def picture() -> None:
        file = tmp_path / "s.json.gz"
        ok(state, "snapshot", "--planned", "-o", str(file))
        taken = read_snapshot(str(file))
        seen[taken.snapshot.version] = taken

    with daemon(state, "--cluster", cluster):
        ok(state, "reserve", "exam", "-N", "1", "--from", "1h", "--for", "1h", "--queue", "speech")
        sizes = [
            ("vision", "1", "2", "10m"),
            ("speech", "2", "2", "2h"),
            ("vision", "2", "3", "5m"),
            ("speech", "1", "4", "1m"),
        ]
        for number, (queue, nodes, gpus, time) in enumerate(sizes * 2):
            submit(state, f"j{number}", "--queue", queue, "-N", nodes, "-G", gpus, "--time", time)
            picture()
        for job in facts(state, "queue")[:3]:
            ok(state, "cancel", job["id"])
            picture()
        assert ok(state, "replay", str(tmp_path / "s.json.gz"), "-o", "name")
    assert len(seen) >= 5
    assert any(taken.plan.admissions for taken in seen.values())
    for taken in seen.values():
        assert decisions_of(schedule(taken.snapshot, taken.now)) == taken.plan
