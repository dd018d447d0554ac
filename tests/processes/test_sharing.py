"""Several users on one cluster, with real daemons and real processes."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from forked_ranks import ForkedScript
from terminal import crash, daemon, facts, ok, phase, start, start_daemon, until

from torch_forks import link_python
from windlass.core.cycle.scheduler import schedule
from windlass.jobs.cluster.snapshot_file import decisions_of, read_snapshot

SLEEP = ("--", "sleep", "60")
EXAMPLE = Path(__file__).parents[2] / "examples/digits/train.py"
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


def wait_until_queued(state: Path, job: str) -> Any:
    return phase(state, job, "Queued")


# --- lending between queues -----------------------------------------------------------------------------------


def test_borrowed_gpus_are_reclaimed_by_the_queue_that_lent_them(state: Path, cluster: str):
    with daemon(state, "--cluster", cluster):
        small = submit(state, "small", "--queue", "vision", "-G", "2")
        phase(state, small, "Running")
        lent = submit(state, "lent", "--queue", "vision", "-N", "2", "-G", "2", "--grace", "5s")
        phase(state, lent, "Running")
        assert share(state, "vision")["borrowed"] == {"gpu": 2}
        reclaiming = submit(state, "reclaiming", "--queue", "speech", "-G", "4")
        phase(state, reclaiming, "Running")
        stopped = wait_until_queued(state, lent)
        assert stopped["status"]["preemptions"] == 1
        assert phase(state, small, "Running")["attempts"] == 1
        assert share(state, "vision")["borrowed"] == {}
        # no gang is preempted for it: the lending queue holds no more than its quota
        assert until(state, "it", "status", reclaiming)["attempts"] == 1
        ok(state, "cancel", reclaiming)
        assert phase(state, lent, "Running")["attempts"] == 2


def share(state: Path, queue: str) -> Any:
    return next(each for each in facts(state, "share") if each["queue"] == queue)


def test_a_job_that_is_not_preemptible_is_not_stopped(state: Path, cluster: str):
    with daemon(state, "--cluster", cluster):
        firm = submit(state, "not-preemptible", "--queue", "vision", "-N", "2", "-G", "2", "--no-preemptible")
        phase(state, firm, "Running")
        phase(state, submit(state, "lending", "--queue", "speech", "-G", "4"), "Running")
        wait_until_queued(state, submit(state, "urgent", "--queue", "vision", "-G", "4", "--priority", "10"))
        assert phase(state, firm, "Running")["attempts"] == 1


# --- preemption without lost work ------------------------------------------------------------------------


def test_a_preempted_job_saves_resumes_and_reaches_the_same_accuracy(state: Path, tmp_path: Path):
    digits = ("-G", "2", "--procs", "1", "--cpus", "1", "--workdir", str(tmp_path))
    command = ("--", str(link_python(tmp_path / "bin")), str(EXAMPLE), "--epochs", "5")
    with daemon(state, "--local-nodes", "1", "--local-gpus", "2", "--policy", "windlass:min_runtime=0s"):
        stopped = submit(state, "stopped", *digits, command=command)
        following = start(state, "logs", "-f", stopped)
        assert following.stdout is not None
        next(line for line in following.stdout if "epoch 1/" in line)
        urgent = submit(state, "urgent", "-G", "2", "--priority", "10", command=("--", "sleep", "0.1"))
        output, _ = following.communicate()
        assert phase(state, stopped, "Succeeded")["status"]["preemptions"] == 1
        assert phase(state, urgent, "Succeeded")["attempts"] == 1
    saved = re.search(r"stop requested: saved after epoch (\d)", output)
    resumed = re.search(r"resumed after epoch (\d)", output)
    assert resumed
    assert saved is None or saved[1] == resumed[1]
    expected = ForkedScript(EXAMPLE, "--epochs", 5).finish().splitlines()[-1]
    assert expected.startswith("test accuracy")
    assert output.splitlines()[-1].partition("] ")[2] == expected


# --- elastic --------------------------------------------------------------------------------------------


def test_an_elastic_job_grows_into_idle_gpus_and_shrinks_for_others(state: Path, cluster: str):
    script = "echo size $WORLD_SIZE; sleep 60"
    with daemon(state, "--cluster", cluster):
        first = submit(state, "first", "--queue", "vision", "-N", "2", "-G", "2")
        phase(state, first, "Running")
        elastic = submit(
            state,
            "elastic",
            "--queue",
            "vision",
            "-N",
            "1:4",
            "-G",
            "2",
            "--procs",
            "1",
            command=("--", "sh", "-c", script),
        )
        assert phase(state, elastic, "Running")["replicas"] == 2
        ok(state, "cancel", first)
        until(state, "it['phase'] == 'Running' and it['replicas'] == 4", "status", elastic)
        reclaiming = submit(state, "reclaiming", "--queue", "speech", "-G", "4")
        phase(state, reclaiming, "Running")
        shrunk = until(state, "it['phase'] == 'Running' and it['replicas'] == 2", "status", elastic)
        assert shrunk["status"]["preemptions"] == 0
        sizes = [line.split()[-1] for line in ok(state, "logs", elastic, "--attempt", "all").splitlines()]
        assert list(dict.fromkeys(sizes)) == ["2", "4"]
        assert sizes[-1] == "2"


# --- backfill -----------------------------------------------------------------------------------------


def test_a_short_job_is_backfilled_before_a_large_one_and_a_long_one_is_not(state: Path):
    with daemon(state, "--local-nodes", "1", "--local-gpus", "4"):
        first = submit(state, "first", "-G", "3", "--time", "10m")
        phase(state, first, "Running")
        large = submit(state, "large", "-G", "4", "--time", "10m")
        assert wait_until_queued(state, large)["eta"]
        short = submit(state, "short", "-G", "1", "--time", "5m")
        phase(state, short, "Running")
        ok(state, "cancel", short)
        phase(state, short, "Failed")
        for name, time in (("long", ("--time", "1h")), ("endless", ())):
            wait_until_queued(state, submit(state, name, "-G", "1", *time))
        ok(state, "cancel", first)
        phase(state, large, "Running")


def test_the_queue_is_listed_in_the_order_of_starts(state: Path):
    with daemon(state, "--local-nodes", "1", "--local-gpus", "2", "--policy", "fifo"):
        submit(state, "holds", "-G", "2")
        names = [submit(state, name, "-G", "2") for name in ("b", "a", "c")]
        assert [job["id"] for job in until(state, "len(it) == 4", "queue")[1:]] == names


# --- reservations -------------------------------------------------------------------------------------


def test_nodes_reserved_for_a_queue_stay_reserved_when_the_daemon_is_killed(state: Path, cluster: str):
    with daemon(state, "--cluster", cluster):
        made = facts(state, "reserve", "exam", "-N", "1", "--from", "4s", "--for", "1h", "--queue", "speech")
        (reserved,) = made["nodes"]
        endless = submit(state, "endless", "--queue", "vision", "-G", "4")
        on = phase(state, endless, "Running")["nodes"]
        assert reserved not in on
        second = submit(state, "second", "--queue", "vision", "-G", "4")
        wait_until_queued(state, second)
        # the reservation is on disk: the next daemon has it, and it begins at its time
        crash(state)
        start_daemon(state)
        assert [each["name"] for each in facts(state, "reserve")] == ["exam"]
        inside = submit(state, "inside", "--queue", "speech", "-G", "4")
        assert phase(state, inside, "Running")["nodes"] == [reserved]
        wait_until_queued(state, second)
        ok(state, "cancel", inside)
        phase(state, inside, "Failed")
        wait_until_queued(state, second)
        assert "deleted" in ok(state, "reserve", "exam", "--delete")
        phase(state, second, "Running")


def test_a_job_that_ends_in_time_may_use_nodes_reserved_for_later(state: Path):
    with daemon(state, "--local-nodes", "1", "--local-gpus", "4"):
        ok(state, "reserve", "repair", "--nodes", "n1", "--from", "1h", "--for", "1h", "--maintenance")
        phase(state, submit(state, "short", "-G", "1", "--time", "30m"), "Running")
        verdict = wait_until_queued(state, submit(state, "long", "-G", "1", "--time", "2h"))
        assert "repair" in verdict["message"]


# --- why ----------------------------------------------------------------------------------------------


def test_a_change_that_why_proposes_starts_the_job(state: Path):
    with daemon(state, "--local-nodes", "2", "--local-gpus", "4"):
        phase(state, submit(state, "first", "-N", "2", "-G", "3"), "Running")
        wait_until_queued(state, submit(state, "wide", "-G", "2"))
        assert "wide-2 with gpus=1 would start now" in ok(state, "why", "wide", "--what-if", "gpus=1")
        assert "would wait" in ok(state, "why", "wide", "--what-if", "time=1h")
        assert facts(state, "why")[0]["would_start"] == ["as 2×1 gpu"]
        ok(state, "cancel", "wide")
        phase(state, submit(state, "wide", "-N", "2", "-G", "1"), "Running")


# --- snapshots ----------------------------------------------------------------------------------------


def test_a_snapshot_of_a_daemon_replays_to_the_same_plan(state: Path, cluster: str, tmp_path: Path):
    """The scheduler decides the same in the daemon and offline from the daemon's snapshot."""
    seen: dict[int, Any] = {}

    def take_snapshot() -> None:
        file = tmp_path / "s.json.gz"
        ok(state, "snapshot", "--planned", str(file))
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
            take_snapshot()
        for job in facts(state, "queue")[:3]:
            ok(state, "cancel", job["id"])
            take_snapshot()
        assert ok(state, "replay", str(tmp_path / "s.json.gz"), "-o", "name")
    assert len(seen) >= 5
    assert any(taken.plan.admissions for taken in seen.values())
    for taken in seen.values():
        assert decisions_of(schedule(taken.snapshot, taken.now)) == taken.plan
