"""CronTrainingJobs on a real API server: runs are created once, and follow the policy and the limits."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from typing import Any

import pytest
from backend_host import Behaviour
from cli.cluster_terminal import Terminal
from operator_place import OperatorPlace

import strays
from windlass.backends.kubernetes.client.object_cache import Change
from windlass.backends.kubernetes.schedules.schedule_runs import ScheduleRuns
from windlass.backends.kubernetes.schedules.schedule_turn import TurnContext
from windlass.backends.kubernetes.status.event_correlation import EventRecord
from windlass.controlplane.api import ApiError
from windlass.jobs.kubernetes.labels import CANCEL, SCHEDULE, SCHEDULED_AT
from windlass.jobs.kubernetes.schedules.cron_training_job import run_name
from windlass.jobs.kubernetes.schedules.schedule_state import StoredSchedule, state_text
from windlass.jobs.schedules.schedule import ScheduleStatus

SCHEDULES = "/apis/windlass.dev/v1alpha1/namespaces/default/crontrainingjobs"
RUNS = "/apis/windlass.dev/v1alpha1/namespaces/default/trainingjobs"
EVENTS = "/api/v1/namespaces/default/events?fieldSelector=involvedObject.name="
MINUTE = 60_000
pytestmark = [pytest.mark.apiserver, pytest.mark.timeout(300)]


def schedule(name: str, behaviour: Behaviour = Behaviour.RUN, **spec: Any) -> dict[str, Any]:
    job = {"command": [behaviour.value], "image": "example.com/job:1"}
    return {
        "apiVersion": "windlass.dev/v1alpha1",
        "kind": "CronTrainingJob",
        "metadata": {"name": name},
        "spec": {"schedule": "0 3 * * *", "jobTemplate": {"spec": job}, **spec},
    }


class Clock:
    """The clock of the schedules alone: jobs keep the real time."""

    def __init__(self) -> None:
        midnight = datetime.now(UTC).replace(hour=0, minute=0, second=0, microsecond=0)
        self.now = self.first = int(midnight.timestamp() * 1000) + 24 * 60 * MINUTE
        self.events: list[tuple[str, str]] = []
        """Reasons and messages of the Events of schedules by this clock."""

    def record(self, event: EventRecord) -> None:
        self.events.append((event.reason, event.note))

    def night(self, day: int) -> int:
        """Three o'clock of the clock's first day, or so many days later."""
        return self.first + (day * 24 + 3) * 60 * MINUTE


@asynccontextmanager
async def scheduled(place: OperatorPlace, clock: Clock) -> AsyncIterator[ScheduleRuns]:
    """Schedules of the leading operator by another clock; those by the real clock do not run."""
    world = place.world
    lookups = world.monitor.lookups.of
    context = TurnContext(world.connection, lambda: clock.now, lookups, world.cancel, clock.record)
    yield ScheduleRuns(context, place.troubles.append)


async def turn(place: OperatorPlace, runs: ScheduleRuns, name: str) -> list[str]:
    """Gives the schedule its turn, as after a restart; returns the names of its runs."""
    found = await place.api.get(f"{SCHEDULES}/{name}")
    runs.see([Change("deleted", found), Change("added", found)])
    await runs.take_due_turns()
    assert [text for text in place.troubles if text.startswith("schedule ")] == []
    listed = await place.api.get(RUNS)
    return sorted(each["metadata"]["name"] for each in listed["items"])


async def until(place: OperatorPlace, path: str, holds: Callable[[Any], object]) -> Any:
    async with asyncio.timeout(strays.TIMEOUT_S):
        while True:
            if holds(found := await place.api.get(path)):
                return found
            await asyncio.sleep(0.1)


def state(value: str) -> Callable[[Any], bool]:
    return lambda found: (found.get("status") or {}).get("state") == value


def test_a_due_run_is_created_once_under_any_leader(tell):
    async def story(place: OperatorPlace) -> None:
        await place.api.post(SCHEDULES, schedule("nightly"))
        clock = Clock()
        async with scheduled(place, clock) as first, scheduled(place, clock) as second:
            clock.now = clock.night(0)
            name = run_name("nightly", clock.night(0))
            assert await turn(place, first, "nightly") == [name]
            assert await turn(place, second, "nightly") == [name], "the next leader creates no other"
            made = await place.api.get(f"{RUNS}/{name}")
            assert made["metadata"]["labels"][SCHEDULE] == "nightly"
            assert SCHEDULED_AT in made["metadata"]["annotations"]
            [owner] = made["metadata"]["ownerReferences"]
            assert (owner["kind"], owner["name"], owner["controller"]) == ("CronTrainingJob", "nightly", True)
            shown = (await place.api.get(f"{SCHEDULES}/nightly"))["status"]
            assert [each["name"] for each in shown["active"]] == [name]
            assert {each["type"]: each["status"] for each in shown["conditions"]} == {
                "Accepted": "True",
                "RunCreated": "True",
            }
            # a state that was written before its run existed
            text = shown["windlass"]["state"].replace('"starting":null', f'"starting":{clock.night(0)}')
            await place.api.patch(f"{SCHEDULES}/nightly/status", {"status": {"windlass": {"state": text}}})
            assert await turn(place, second, "nightly") == [name]
            # forbid: the next time passes while the run is active
            await until(place, f"{RUNS}/{name}", state("Running"))
            clock.now = clock.night(1)
            assert clock.events == [("SuccessfulCreate", f"created the run {name}")]
            clock.events.clear()
            assert await turn(place, second, "nightly") == [name]
            [(reason, message)] = clock.events
            assert reason == "RunSkipped"
            assert message.endswith("03:00 UTC: the previous run has not ended")
            # suspended: a time passes, and is not made up for
            await place.api.patch(f"{SCHEDULES}/nightly", {"spec": {"suspend": True}})
            clock.now = clock.night(2)
            await turn(place, second, "nightly")
            await place.api.patch(f"{SCHEDULES}/nightly", {"spec": {"suspend": False}})
            assert await turn(place, second, "nightly") == [name]
        await place.api.delete(f"{SCHEDULES}/nightly")

    tell(story)


def test_replace_cancels_the_run_and_the_history_keeps_the_latest(tell):
    async def story(place: OperatorPlace) -> None:
        await place.api.post(SCHEDULES, schedule("replaced", concurrencyPolicy="Replace", failedJobsHistoryLimit=1))
        clock = Clock()
        async with scheduled(place, clock) as runs:
            names = [run_name("replaced", clock.night(day)) for day in range(3)]
            nights = [clock.night(day) for day in range(3)]
            for number, name in enumerate(names):
                clock.now = nights[number]
                await turn(place, runs, "replaced")
                if number:
                    await until(place, f"{RUNS}/{names[number - 1]}", state("Cancelled"))
                    await turn(place, runs, "replaced")
                await until(place, f"{RUNS}/{name}", state("Running"))
            assert await turn(place, runs, "replaced") == names[1:], "one was cancelled, one runs"
            happened = [reason for reason, _ in clock.events]
            assert happened.count("SuccessfulCreate") == 3
            assert [text for reason, text in clock.events if reason == "RunReplaced"] == [
                f"cancels the run {name} for the next one" for name in names[:2]
            ]
            assert (
                "SuccessfulDelete",
                f"deleted the run {names[0]}, which the history no longer keeps",
            ) in clock.events
        await place.api.delete(f"{SCHEDULES}/replaced")

    tell(story)


def test_replace_ends_a_run_that_waits_for_an_object(tell):
    async def story(place: OperatorPlace) -> None:
        held = schedule("held", concurrencyPolicy="Replace")
        held["spec"]["jobTemplate"]["spec"]["pod"] = {"spec": {"priorityClassName": "missing"}}
        await place.api.post(SCHEDULES, held)
        clock = Clock()
        async with scheduled(place, clock) as runs:
            first, second = (run_name("held", clock.night(day)) for day in range(2))
            clock.now = clock.night(0)
            assert await turn(place, runs, "held") == [first]
            await until(place, f"{RUNS}/{first}", lambda each: "missing" in json.dumps(each.get("status", {})))
            clock.now = clock.night(1)
            await turn(place, runs, "held")
            await until(place, f"{RUNS}/{first}", state("Cancelled"))
            assert await turn(place, runs, "held") == [first, second]
        await place.api.delete(f"{SCHEDULES}/held")

    tell(story)


def test_a_refusal_that_quotes_the_template_is_shortened(tell):
    async def story(place: OperatorPlace) -> None:
        long = schedule("long")
        long["spec"]["jobTemplate"]["metadata"] = {"labels": {"team": "x" * 400_000}}
        await place.api.post(SCHEDULES, long)
        clock = Clock()
        async with scheduled(place, clock) as runs:
            clock.now = clock.night(0)
            assert await turn(place, runs, "long") == []
        status = (await place.api.get(f"{SCHEDULES}/long"))["status"]
        [created] = [each for each in status["conditions"] if each["type"] == "RunCreated"]
        assert created["message"].startswith("the run was refused: ")
        assert "xxx" in created["message"]
        assert len(json.dumps(status)) < 5_000
        await place.api.delete(f"{SCHEDULES}/long")

    tell(story)


def test_queue_lets_one_run_wait_for_the_end_of_the_active_one(tell):
    async def story(place: OperatorPlace) -> None:
        await place.api.post(SCHEDULES, schedule("queued", concurrencyPolicy="Queue"))
        clock = Clock()
        async with scheduled(place, clock) as runs:
            first, second = (run_name("queued", clock.night(day)) for day in range(2))
            clock.now = clock.night(0)
            await turn(place, runs, "queued")
            await until(place, f"{RUNS}/{first}", state("Running"))
            for day in (1, 2):
                clock.now = clock.night(day)
                assert await turn(place, runs, "queued") == [first], "it waits"
            stored = (await place.api.get(f"{SCHEDULES}/queued"))["status"]["windlass"]["state"]
            assert json.loads(stored)["status"]["waiting"] == clock.night(1)
            assert "a run waits already" in stored
            assert [reason for reason, _ in clock.events] == ["SuccessfulCreate", "RunWaiting", "RunSkipped"]
            await place.api.patch(f"{RUNS}/{first}", {"metadata": {"annotations": {CANCEL: "a test"}}})
            await until(place, f"{RUNS}/{first}", state("Cancelled"))
            assert await turn(place, runs, "queued") == [first, second]
        await place.api.delete(f"{SCHEDULES}/queued")

    tell(story)


def test_the_operator_makes_up_for_the_latest_missed_time_in_the_zone_of_the_schedule(tell):
    async def story(place: OperatorPlace) -> None:
        carried_out = asyncio.create_task(place.world.schedules.run())
        where, zone = f"{SCHEDULES}/hourly", "Asia/Kathmandu"
        await place.api.post(
            SCHEDULES, schedule("hourly", Behaviour.SUCCEED, schedule="0 * * * *", timeZone=zone, suspend=True)
        )
        await until(place, where, lambda each: "windlass" in (each.get("status") or {}))
        considered = int(time.time() * 1000) - 180 * MINUTE
        text = state_text(StoredSchedule(ScheduleStatus(considered), f"0 * * * * {zone}"))
        await place.api.patch(f"{where}/status", {"status": {"windlass": {"state": text}}})
        await place.api.patch(where, {"spec": {"suspend": False}})
        found = await until(place, where, lambda each: each["status"].get("lastSuccessfulTime"))
        listed = await place.api.get(RUNS)
        [name] = [each["metadata"]["name"] for each in listed["items"]]
        minutes = int(name.rpartition("-")[2])
        assert minutes % 60 == 15, "Kathmandu is 5:45 ahead"
        assert 0 <= time.time() / 60 - minutes < 61, "the latest one"
        assert '"missed":2' in found["status"]["windlass"]["state"]
        listed = await until(place, f"{EVENTS}hourly", lambda each: len(each["items"]) > 1)
        events = {each["reason"]: (each["type"], each["message"]) for each in listed["items"]}
        assert events["SuccessfulCreate"] == ("Normal", f"created the run {name}")
        assert events["MissSchedule"][0] == "Warning"
        assert events["MissSchedule"][1].startswith("missed 2 since ")
        assert {each["involvedObject"]["kind"] for each in listed["items"]} == {"CronTrainingJob"}
        carried_out.cancel()
        await place.api.delete(where)

    tell(story)


def test_malformed_schedules_are_refused_or_get_a_condition(tell):
    async def story(place: OperatorPlace) -> None:
        carried_out = asyncio.create_task(place.world.schedules.run())
        for spec, words in [
            ({"concurrencyPolicy": "Allow"}, "Unsupported value"),
            ({"jobTemplate": {"spec": {}}}, "command"),
            ({"successfulJobsHistoryLimit": -1}, "should be greater than or equal to 0"),
            ({"startingDeadlineSeconds": "soon"}, "must be of type integer"),
            ({"schedule": "* " * 101}, "Too long"),
            ({"timeZone": "a" * 101}, "Too long"),
        ]:
            with pytest.raises(ApiError, match=words):
                await place.api.post(SCHEDULES, schedule("malformed", **spec))
        long = schedule("malformed")
        long["metadata"]["name"] = "n" * 53
        with pytest.raises(ApiError, match="52 at most"):
            await place.api.post(SCHEDULES, long)
        await place.api.post(SCHEDULES, schedule("malformed", schedule="61 3 * * *"))
        found = await until(place, f"{SCHEDULES}/malformed", lambda each: each.get("status"))
        [accepted] = found["status"]["conditions"]
        assert (accepted["status"], accepted["reason"]) == ("False", "InvalidSpec")
        assert "spec.schedule: expects a cron expression" in accepted["message"]
        [event] = (await until(place, f"{EVENTS}malformed", lambda each: each["items"]))["items"]
        assert (event["type"], event["reason"], event["message"]) == ("Warning", "InvalidSpec", accepted["message"])
        await place.submit("another")
        await until(place, f"{RUNS}/another", state("Running"))
        await place.delete("another")
        carried_out.cancel()
        await place.api.delete(f"{SCHEDULES}/malformed")

    tell(story)


def test_verbs_read_and_change_a_schedule(tell, apiserver, tmp_path):
    async def story(place: OperatorPlace) -> None:
        windlass, where = Terminal(apiserver.kubeconfig, tmp_path), f"{SCHEDULES}/weekly"
        await place.api.post(SCHEDULES, schedule("weekly", schedule="0 3 * * 1", concurrencyPolicy="Queue"))
        [row] = json.loads(await windlass.done("queue", "--schedules", "-o", "json"))
        assert (row["name"], row["cron"], row["policy"], row["missed"]) == ("weekly", "0 3 * * 1", "queue", 0)
        shown = (await windlass.done("status", "weekly")).splitlines()
        assert [line for line in shown if "next run" not in line] == [
            "weekly: Scheduled, 0 3 * * 1 (UTC)",
            "  while a run is active: queue",
            "  kept: 3 succeeded and 1 failed runs",
            "  active: no run",
            "  missed 0, skipped 0",
        ]
        assert await windlass.done("suspend", "weekly") == "schedule weekly is suspended"
        assert (await place.api.get(where))["spec"]["suspend"] is True
        assert await windlass.done("resume", "weekly") == "schedule weekly is resumed"
        run = await windlass.done("submit", "--from", "weekly")
        made = await place.api.get(f"{RUNS}/{run}")
        assert made["metadata"]["ownerReferences"][0]["name"] == "weekly"
        assert await windlass.done("cancel", "weekly") == "schedule weekly is deleted"
        deleted = await place.api.get(where)  # the API server alone collects no garbage
        assert deleted["metadata"]["finalizers"] == ["orphan"], "the run goes on"
        await place.api.patch(where, {"metadata": {"finalizers": None}})

    tell(story)


def test_the_name_of_a_schedule_means_its_living_or_latest_run(tell, apiserver, tmp_path):
    async def story(place: OperatorPlace) -> None:
        operator = f"http://127.0.0.1:{place.port}"
        windlass = Terminal(apiserver.kubeconfig, tmp_path, operator)
        await place.api.post(SCHEDULES, schedule("nightly", Behaviour.RUN))
        for words in (
            ("logs", "nightly"),
            ("top", "nightly"),
            ("exec", "nightly", "--", "true"),
            ("doctor", "nightly"),
        ):
            none = await windlass(*words)
            assert none.code != 0
            assert "no run of the schedule nightly is recorded" in none.err, words
            assert "start one with: windlass submit --from nightly" in none.err
        runs = [await windlass.done("submit", "--from", "nightly") for _ in range(2)]
        for run in runs:
            await place.phase(f"default/{run}", "Running")
        ended, meant = sorted(runs, key=lambda run: run != runs[0])
        await windlass.done("cancel", ended)
        await place.phase(f"default/{ended}", "Failed")
        note = f"windlass: nightly is a schedule: its run default/{meant} is meant"
        top = await windlass("top", "nightly", "-o", "json")
        assert (top.code, top.err.strip()) == (0, note)
        assert (await windlass("top", f"default/{meant}", "-o", "json")).out == top.out
        for words in (("logs", "nightly"), ("doctor", "nightly"), ("doctor", "slow", "nightly")):
            ran = await windlass(*words)
            assert note in ran.err.splitlines(), (words, ran)
        shell = await windlass("exec", "nightly", "--", "true")
        assert note in shell.err
        await place.api.delete(f"{SCHEDULES}/nightly")

    tell(story)
