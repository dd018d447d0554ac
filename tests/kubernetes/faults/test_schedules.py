"""CronTrainingJobs whose operator is killed, that are deleted, and that are malformed."""

from __future__ import annotations

import json
import time
from typing import Any

import pytest
from planes.fault_proxy import FaultProxy, Rule

from windlass.controlplane.cluster import ControlPlane
from windlass.jobs.kubernetes.labels import SCHEDULE
from windlass.jobs.kubernetes.schedules.schedule_state import StoredSchedule, state_text
from windlass.jobs.schedules.schedule import ScheduleStatus

from . import jobs
from .conftest import Play
from .fault_scenario import FaultScenario
from .operator_processes import OperatorProcesses

RUNS = "/apis/windlass.dev/v1alpha1/namespaces/default/trainingjobs"
SCHEDULES = "/apis/windlass.dev/v1alpha1/namespaces/default/crontrainingjobs"
NEVER_ASKED = Rule(0, "POST", "/trainingjobs$")
ANSWER_LOST = Rule(0, "POST", "/trainingjobs$", performed=True)


async def state_of(on: FaultScenario, name: str) -> dict[str, Any]:
    """The durable state of a schedule; empty before the operator has seen it."""
    status = (await on.api.get(f"{SCHEDULES}/{name}")).get("status") or {}
    return json.loads(status["windlass"]["state"]) if "windlass" in status else {}


async def runs_of(on: FaultScenario, name: str) -> list[str]:
    """Names of the runs of a schedule, oldest time first."""
    listed = (await on.api.get(RUNS))["items"]
    return sorted(each["metadata"]["name"] for each in listed if each["metadata"]["labels"].get(SCHEDULE) == name)


async def make_due(on: FaultScenario, *names: str) -> None:
    """Resumes suspended schedules as if the operator had looked at them two hours ago: one run of each is due."""
    for name in names:
        await on.until(lambda name=name: state_of(on, name), f"the state of {name}")
        considered = int(time.time() * 1000) - 2 * 3_600_000
        text = state_text(StoredSchedule(ScheduleStatus(considered), "0 * * * * UTC"))
        await on.api.patch(f"{SCHEDULES}/{name}/status", {"status": {"windlass": {"state": text}}})
        await on.api.patch(f"{SCHEDULES}/{name}", {"spec": {"suspend": False}})


@pytest.mark.timeout(240)
@pytest.mark.parametrize("rule", [NEVER_ASKED, ANSWER_LOST], ids=["before the run", "before the answer"])
def test_a_run_is_created_once_although_the_operator_is_killed_while_it_starts(
    plane: ControlPlane, play: Play, rule: Rule
) -> None:
    async def scenario(on: FaultScenario) -> None:
        rule.applied = 0
        async with FaultProxy(on.plane, [rule]) as proxy:
            await on.replicas.start(proxy.url)
            first = await on.replicas.leader()
            await on.make(jobs.schedule("hourly", work=0.2))
            await make_due(on, "hourly")

            async def is_deciding() -> bool:
                return bool(rule.applied) and (await state_of(on, "hourly"))["starting"] is not None

            await on.until(is_deciding, "a decision without the answer about its run")
            due = (await state_of(on, "hourly"))["starting"]
            assert len(await runs_of(on, "hourly")) == (1 if rule.performed else 0)
            on.replicas.kill(first)
        await on.replicas.start()
        await on.replicas.leader()

        async def has_started() -> bool:
            return (await state_of(on, "hourly"))["starting"] is None

        await on.until(has_started, "the end of the start")
        await on.until_all_ended()
        assert await runs_of(on, "hourly") == [f"hourly-{due // 60_000}"]
        assert (await state_of(on, "hourly"))["status"]["last_run"] == due

    play(plane, scenario, lease=2.0, operators=OperatorProcesses)


@pytest.mark.timeout(240)
def test_runs_are_collected_with_their_schedule_unless_they_are_orphaned(
    with_controllers: ControlPlane, play: Play
) -> None:
    async def scenario(on: FaultScenario) -> None:
        await on.replicas.start()
        await on.replicas.leader()
        await on.make(jobs.schedule("collected"), jobs.schedule("orphaned"))
        await make_due(on, "collected", "orphaned")
        await on.until(lambda: runs_of(on, "collected"), "a run of collected")
        await on.until(lambda: runs_of(on, "orphaned"), "a run of orphaned")
        await on.until_phase("Running", *await runs_of(on, "collected"), *await runs_of(on, "orphaned"))
        [kept] = await runs_of(on, "orphaned")
        await on.api.delete(f"{SCHEDULES}/orphaned", propagationPolicy="Orphan")
        await on.api.delete(f"{SCHEDULES}/collected", propagationPolicy="Background")

        async def are_gone() -> bool:
            pods = (await on.api.get("/api/v1/namespaces/default/pods"))["items"]
            left = {each["metadata"]["labels"].get("windlass.dev/job-name") for each in pods}
            schedules = (await on.api.get(SCHEDULES))["items"]
            return not await runs_of(on, "collected") and not schedules and left == {kept}

        await on.until(are_gone, "the runs of collected, and its pods, are gone")
        run = await on.job(kept)
        assert "ownerReferences" not in run["metadata"]
        assert run["status"]["windlass"]["phase"] == "Running"

    play(with_controllers, scenario, lease=4.0, alone=False)


def test_schedules_that_cannot_be_carried_out_do_not_delay_others(plane: ControlPlane, play: Play) -> None:
    async def scenario(on: FaultScenario) -> None:
        await on.replicas.start()
        await on.replicas.leader()
        malformed = [
            jobs.schedule("no-such-time", schedule="61 * * * *", suspend=False),
            jobs.schedule("no-such-zone", timeZone="Mars/Olympus", suspend=False),
            jobs.schedule("refused-run"),
            jobs.schedule("forged-state"),
        ]
        malformed[2]["spec"]["jobTemplate"]["metadata"] = {"labels": {"team": "not a label!"}}
        await on.make(*malformed, jobs.schedule("good", work=0.2))
        await on.until(lambda: state_of(on, "forged-state"), "the state of forged-state")
        forged = {"windlass": {"state": "["}}
        await on.api.patch(f"{SCHEDULES}/forged-state/status", {"status": forged})
        await on.api.patch(f"{SCHEDULES}/forged-state", {"spec": {"suspend": False}})
        await make_due(on, "refused-run", "good")
        await on.until(lambda: runs_of(on, "good"), "a run of good")
        await on.until_phase("Succeeded", *await runs_of(on, "good"))

        async def condition_of(name: str, kind: str) -> tuple[str, str]:
            conditions = (await on.api.get(f"{SCHEDULES}/{name}"))["status"]["conditions"]
            return next(((each["status"], each["reason"]) for each in conditions if each["type"] == kind), ("", ""))

        for name in ("no-such-time", "no-such-zone"):
            assert await condition_of(name, "Accepted") == ("False", "InvalidSpec")

        async def is_refused() -> bool:
            return (await condition_of("refused-run", "RunCreated"))[0] == "False"

        await on.until(is_refused, "the refusal of the run")
        assert await runs_of(on, "refused-run") == []
        replaced = await state_of(on, "forged-state")
        assert (replaced["starting"], replaced["status"]["missed"]) == (None, 0), "nothing is due of a forged state"
        assert await runs_of(on, "forged-state") == []

    play(plane, scenario, lease=4.0)
