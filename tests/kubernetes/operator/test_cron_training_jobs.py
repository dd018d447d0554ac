"""CronTrainingJobs on a real API server: runs are created once, and follow the policy and the limits of the schedule."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest
from backend_host import Behaviour
from operator_place import OperatorPlace

import strays
from windlass.backends.kubernetes.client.object_cache import Change
from windlass.backends.kubernetes.schedules.schedule_runs import ScheduleRuns
from windlass.backends.kubernetes.schedules.schedule_turn import TurnContext
from windlass.controlplane.api import ApiError
from windlass.jobs.kubernetes.labels import SCHEDULE, SCHEDULED_AT
from windlass.jobs.kubernetes.schedules.cron_training_job import run_name

SCHEDULES = "/apis/windlass.dev/v1alpha1/namespaces/default/crontrainingjobs"
RUNS = "/apis/windlass.dev/v1alpha1/namespaces/default/trainingjobs"
MINUTE = 60_000
pytestmark = [pytest.mark.apiserver, pytest.mark.timeout(300)]


def schedule(behaviour: Behaviour = Behaviour.RUN, **spec: Any) -> dict[str, Any]:
    job = {"command": [behaviour.value], "image": "example.com/job:1"}
    return {
        "apiVersion": "windlass.dev/v1alpha1",
        "kind": "CronTrainingJob",
        "metadata": {"name": "nightly"},
        "spec": {"schedule": "0 3 * * *", "jobTemplate": {"spec": job}, **spec},
    }


class Clock:
    """The clock of the schedules alone: jobs keep the real time."""

    def __init__(self) -> None:
        midnight = datetime.now(UTC).replace(hour=0, minute=0, second=0, microsecond=0)
        self.now = int(midnight.timestamp() * 1000) + 24 * 60 * MINUTE

    def night(self, day: int) -> int:
        return self.now - self.now % (24 * 60 * MINUTE) + (day * 24 + 3) * 60 * MINUTE


@asynccontextmanager
async def scheduled(place: OperatorPlace, clock: Clock) -> AsyncIterator[ScheduleRuns]:
    """Schedules of the leading operator by another clock; its own ones see nothing due."""
    world = place.world
    context = TurnContext(world.connection, lambda: clock.now, world.monitor.lookups.of, world.inbox.put)
    yield ScheduleRuns(context, place.troubles.append)


async def turn(place: OperatorPlace, runs: ScheduleRuns) -> list[str]:
    """Gives the schedule its turn, as after a restart; returns the names of its runs."""
    found = await place.api.get(f"{SCHEDULES}/nightly")
    runs.see([Change("deleted", found), Change("added", found)])
    await runs.take_due_turns()
    assert place.troubles == []
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


async def remove(place: OperatorPlace) -> None:
    await place.api.delete(f"{SCHEDULES}/nightly")


def test_a_due_run_is_created_once_whoever_leads(tell):
    async def story(place: OperatorPlace) -> None:
        await place.api.post(SCHEDULES, schedule())
        clock = Clock()
        async with scheduled(place, clock) as first, scheduled(place, clock) as second:
            clock.now = clock.night(0)
            name = run_name("nightly", clock.night(0))
            assert await turn(place, first) == [name]
            assert await turn(place, second) == [name], "the next leader creates no other"
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
            assert await turn(place, second) == [name]
            # forbid: the next time passes while the run is active
            await until(place, f"{RUNS}/{name}", state("Running"))
            clock.now = clock.night(1)
            assert await turn(place, second) == [name]
            # suspended: a time passes, and is not made up for
            await place.api.patch(f"{SCHEDULES}/nightly", {"spec": {"suspend": True}})
            clock.now = clock.night(2)
            await turn(place, second)
            await place.api.patch(f"{SCHEDULES}/nightly", {"spec": {"suspend": False}})
            assert await turn(place, second) == [name]
        await remove(place)

    tell(story)


def test_replace_cancels_the_run_and_the_history_keeps_the_latest(tell):
    async def story(place: OperatorPlace) -> None:
        await place.api.post(SCHEDULES, schedule(concurrencyPolicy="Replace", failedJobsHistoryLimit=1))
        clock = Clock()
        async with scheduled(place, clock) as runs:
            for day in range(3):
                clock.now = clock.night(0) if day == 0 else clock.now + 24 * 60 * MINUTE
                await turn(place, runs)
                if day:
                    await until(place, f"{RUNS}/{before}", state("Cancelled"))  # noqa: F821 - of the day before
                    await turn(place, runs)
                before = run_name("nightly", clock.now)
                await until(place, f"{RUNS}/{before}", state("Running"))
            await turn(place, runs)
            left = await place.api.get(RUNS)
            names = sorted(each["metadata"]["name"] for each in left["items"])
            assert names == [run_name("nightly", clock.now - 24 * 60 * MINUTE), before], "one has failed, one runs"
        await remove(place)

    tell(story)


def test_the_operator_itself_starts_a_run_in_the_time_zone_of_the_schedule(tell):
    """The schedule is due every minute; its creation is the only wait of this test."""

    async def story(place: OperatorPlace) -> None:
        await place.api.post(SCHEDULES, schedule(Behaviour.SUCCEED, schedule="* * * * *", timeZone="Asia/Kathmandu"))
        found = await until(place, RUNS, lambda listed: listed["items"])
        due = int(found["items"][0]["metadata"]["name"].rpartition("-")[2]) * MINUTE
        assert abs(due - time.time() * 1000) < 2 * MINUTE
        await until(place, f"{SCHEDULES}/nightly", lambda each: each["status"].get("lastSuccessfulTime"))
        await remove(place)

    tell(story)


def test_malformed_schedules_are_refused_or_get_a_condition(tell):
    async def story(place: OperatorPlace) -> None:
        for spec, words in [
            ({"concurrencyPolicy": "Allow"}, "Unsupported value"),
            ({"jobTemplate": {"spec": {}}}, "command"),
            ({"successfulJobsHistoryLimit": -1}, "should be greater than or equal to 0"),
            ({"startingDeadlineSeconds": "soon"}, "must be of type integer"),
        ]:
            with pytest.raises(ApiError, match=words):
                await place.api.post(SCHEDULES, schedule(**spec))
        long = schedule()
        long["metadata"]["name"] = "n" * 53
        with pytest.raises(ApiError, match="52 at most"):
            await place.api.post(SCHEDULES, long)
        await place.api.post(SCHEDULES, schedule(schedule="61 3 * * *"))
        found = await until(place, f"{SCHEDULES}/nightly", lambda each: each.get("status"))
        [accepted] = found["status"]["conditions"]
        assert (accepted["status"], accepted["reason"]) == ("False", "InvalidSpec")
        assert "spec.schedule: expects a cron expression" in accepted["message"]
        await place.submit("another")
        await until(place, f"{RUNS}/another", state("Running"))
        await place.delete("another")
        await remove(place)

    tell(story)
