"""A schedule of a real daemon: the commands of the guide, a kill of the daemon, and the records without one."""

from __future__ import annotations

import asyncio
import re
import sys
from pathlib import Path

import pytest
from terminal import crash, daemon, facts, ok, start_daemon, until, windlass

import windlass as windlass_api

SMALL = ("--local-nodes", "1", "--local-gpus", "1")


def test_a_schedule_is_made_shown_started_suspended_and_deleted(state: Path):
    with daemon(state, *SMALL):
        zone = ("--cron", "0 3 * * *", "--time-zone", "Europe/Berlin", "--cron-policy", "queue")
        assert ok(state, "submit", "--name", "nightly", *zone, "--", "true") == "nightly\n"
        assert "nightly" in ok(state, "queue", "--schedules")
        assert ok(state, "submit", "--from", "nightly") == "nightly-1\n"
        until(state, "it['phase'] == 'Succeeded'", "status", "nightly-1")
        told = ok(state, "status", "nightly").splitlines()
        assert told[0] == "nightly: Scheduled, 0 3 * * * (Europe/Berlin)"
        assert re.fullmatch(r"  next run: 20[0-9]{2}-[0-9]{2}-[0-9]{2} 03:00 CES?T", told[1])
        assert "Started: nightly-1 was started by a user" in told[-1]
        assert ok(state, "why", "nightly").splitlines() == told
        assert ok(state, "suspend", "nightly") == "schedule nightly is suspended\n"
        crash(state)
        assert facts(state, "status", "nightly")["suspended"], "the records are read without a daemon"
        start_daemon(state, *SMALL)
        assert ok(state, "resume", "nightly") == "schedule nightly is resumed\n"
        assert facts(state, "status", "nightly")["policy"] == "queue"
        assert ok(state, "cancel", "nightly") == "schedule nightly is deleted\n"
        assert facts(state, "queue", "--schedules") == []


def test_the_name_of_a_schedule_means_its_living_or_latest_run(state: Path):
    with daemon(state, *SMALL):
        ok(state, "submit", "--name", "nightly", "--cron", "0 3 * * *", "--", "sh", "-c", "echo I am $WINDLASS_JOB_ID")
        none = windlass(state, "logs", "nightly")
        assert none.returncode == 4
        assert "no run of the schedule nightly is recorded" in none.stderr
        assert "start one with: windlass submit --from nightly" in none.stderr
        for run in ("nightly-1", "nightly-2"):
            assert ok(state, "submit", "--from", "nightly") == f"{run}\n"
            until(state, "it['phase'] == 'Succeeded'", "status", run)
        assert ok(state, "logs", "--bare", "nightly") == "I am nightly-2\n"
        assert ok(state, "logs", "-f", "--bare", "nightly") == "I am nightly-2\n"
        assert [each["rank"] for each in facts(state, "top", "nightly")] == [0]
    assert ok(state, "logs", "--bare", "nightly") == "I am nightly-2\n", "the records are read without a daemon"


def test_mistakes_get_one_clear_error(state: Path):
    wrong = windlass(state, "submit", "--cron", "0 3 * *", "--", "true")
    assert wrong.returncode == 2
    assert wrong.stderr.startswith("windlass: --cron: expects five fields (minute hour day month weekday)")
    lonely = windlass(state, "submit", "--time-zone", "UTC", "--", "true")
    assert "time_zone is for a job with cron" in lonely.stderr
    once = windlass(state, "run", "--cron", "@daily", "--", "true")
    assert "submit it with windlass submit, or leave out cron" in once.stderr


def test_the_python_api_creates_lists_suspends_runs_and_deletes_schedules(state: Path):
    with daemon(state, *SMALL), windlass_api.Client("local", state=state) as client:
        made = client.create_schedule("echo trained", "0 3 * * *", name="nightly", time_zone="Europe/Berlin", cpus=0)
        assert (made.name, made.cron, made.time_zone, made.policy) == ("nightly", "0 3 * * *", "Europe/Berlin", "skip")
        assert made.next is not None
        run = client.run_schedule("nightly")
        assert run.wait(60).succeeded
        assert [line.text for line in run.logs()] == ["trained"]
        client.suspend_schedule("nightly")
        [found] = client.schedules()
        assert (found.suspended, found.next, found.active) == (True, None, ())
        assert found.notes[-1]["message"] == f"{run.id} was started by a user"
        with pytest.raises(windlass_api.WrongStateError, match="the schedule nightly is suspended already"):
            client.suspend_schedule("nightly")
        client.resume_schedule("nightly")
        with pytest.raises(windlass_api.InvalidRequestError, match="there is a schedule 'nightly' already"):
            client.create_schedule("true", "@daily", name="nightly")
        with pytest.raises(windlass_api.InvalidRequestError, match="expects five fields"):
            client.create_schedule("true", "at night")
        client.delete_schedule("nightly")
        assert client.schedules() == []
        with pytest.raises(windlass_api.NoSuchJobError, match="there is no schedule 'nightly'"):
            client.resume_schedule("nightly")


def test_a_call_of_a_function_is_scheduled(state: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    code = "import windlass\n\n@windlass.job(cpus=0)\ndef evaluate(share):\n    return share * 2\n"
    (tmp_path / "scheduled_function.py").write_text(code)
    monkeypatch.syspath_prepend(str(tmp_path))
    import scheduled_function  # noqa: PLC0415 - written above

    async def story() -> None:
        async with windlass_api.AsyncClient("local", state=state) as client:
            await client.create_schedule(scheduled_function.evaluate.bind(4), "@weekly")
            assert await (await client.run_schedule("evaluate")).result(60) == 8

    try:
        with daemon(state, *SMALL):
            asyncio.run(story())
    finally:
        del sys.modules["scheduled_function"]
