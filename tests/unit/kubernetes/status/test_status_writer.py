"""Objects that cannot be written do not hold up the status of other jobs."""

from __future__ import annotations

import asyncio
import copy
from collections import Counter
from collections.abc import Awaitable, Callable
from typing import Any, cast

import pytest
from memory_api import JOBS, Leader, MemoryApi
from test_state_writes import RUNNING, Server, gang_of
from virtual_loop import run_in_virtual_time

from windlass.backends.kubernetes.client.api_errors import ApiError
from windlass.backends.kubernetes.client.connection import Connection
from windlass.backends.kubernetes.client.priority_limiter import PriorityLimiter
from windlass.backends.kubernetes.gangs.gang import Gang
from windlass.backends.kubernetes.gangs.stored_state import Stored
from windlass.backends.kubernetes.status import state_writes
from windlass.backends.kubernetes.status.status_writer import StatusWriter, status_of
from windlass.core.model.status import JobState, Phase, Status

BROKEN_COUNT, SLOW_S = 16, 3.0


class SlowApi:
    """Accepts the status of `healthy`; fails that of any other object after three seconds."""

    def __init__(self) -> None:
        self.asked: Counter[str] = Counter()
        self.written_at: float | None = None

    async def patch(self, _resource: object, _namespace: str, name: str, body: dict[str, Any], **_: Any) -> Any:
        self.asked[name] += 1
        if name != "healthy":
            await asyncio.sleep(SLOW_S)
            raise ApiError(500, "InternalError", "failed calling webhook")
        self.written_at = asyncio.get_running_loop().time()
        about = {"name": name, "namespace": "ml", "uid": name, "resourceVersion": "9"}
        return {"metadata": about, "status": body["status"]}


def stale_gang(name: str) -> Gang:
    server = Server()
    server.object = copy.deepcopy(server.object)
    server.object["metadata"] |= {"name": name, "uid": name}
    gang = gang_of(server)
    gang.stored, gang.notes.needs_write = Stored(7, 1, RUNNING), True
    return gang


def play(story: Callable[[StatusWriter, SlowApi], Awaitable[None]]) -> SlowApi:
    async def whole() -> SlowApi:
        api = SlowApi()
        writer = StatusWriter(cast("Connection", api), PriorityLimiter(4), lambda: 0, lambda _gang: None)
        await story(writer, api)
        await writer.close()
        return api

    return cast("SlowApi", run_in_virtual_time(whole()))


def test_the_status_of_a_job_whose_state_could_not_be_written_is_not_written() -> None:
    async def story(writer: StatusWriter, api: SlowApi) -> None:
        gang = stale_gang("broken")
        gang.notes.not_written = "the webhook is down"
        writer.write_if_changed(gang)
        await asyncio.sleep(10)
        assert not api.asked
        gang.notes.not_written = ""
        writer.write_if_changed(gang)
        await asyncio.sleep(1)

    assert play(story).asked["broken"] == 1, "the change is not lost"


def test_a_status_that_waits_for_a_commit_is_that_of_the_committed_state() -> None:
    """An end that the commit has written is not taken back."""
    server = SlowServer()

    async def story() -> None:
        connection = cast("Connection", server)
        gang = gang_of(server)
        await state_writes.write_state(connection, gang, JobState(gang.id, 7, gang.job, RUNNING), {})
        writer = StatusWriter(connection, PriorityLimiter(4), lambda: 0, lambda _gang: None)
        ended = JobState(gang.id, 7, gang.job, Status(phase=Phase.SUCCEEDED, finished_at=1))
        fields = status_of(gang, ended.status, 0)
        committing = asyncio.create_task(state_writes.write_state(connection, gang, ended, fields))
        await asyncio.sleep(0.5)
        gang.notes.needs_write = True
        writer.write_if_changed(gang)
        await committing
        await asyncio.sleep(10)
        await writer.close()

    run_in_virtual_time(story())
    first, *later = server.shown
    assert first == set()
    assert later
    assert all("Succeeded" in each for each in later)


class SlowServer(Server):
    """One object, of which each write takes a second. `shown`: its true conditions after each write."""

    def __init__(self) -> None:
        super().__init__()
        self.shown: list[set[str]] = []

    async def patch(self, *about: Any, **more: Any) -> dict[str, Any]:
        await asyncio.sleep(1)
        answer = await super().patch(*about, **more)
        conditions = self.object["status"].get("conditions", [])
        self.shown.append({each["type"] for each in conditions if each["status"] == "True"})
        return answer


def test_attempts_end_when_the_state_cannot_be_written_either() -> None:
    async def story(writer: StatusWriter, _api: SlowApi) -> None:
        gang = stale_gang("broken")
        writer.write_if_changed(gang)
        await asyncio.sleep(1)
        gang.notes.not_written = "the webhook is down"
        await asyncio.sleep(600)

    assert play(story).asked["broken"] == 1


def test_sixteen_broken_objects_leave_the_writer_to_others_almost_always() -> None:
    async def story(writer: StatusWriter, _api: SlowApi) -> None:
        for number in range(BROKEN_COUNT):
            writer.write_if_changed(stale_gang(f"broken-{number}"))
        await asyncio.sleep(1_800)
        writer.write_if_changed(stale_gang("healthy"))
        await asyncio.sleep(2 * SLOW_S)

    api = play(story)
    assert all(api.asked[f"broken-{number}"] <= 1_800 / 60 + 6 for number in range(BROKEN_COUNT))
    assert api.written_at is not None
    assert api.written_at <= 1_800 + SLOW_S


@pytest.mark.parametrize("work", [0.5, 200.0], ids=["ended", "running"])
@pytest.mark.parametrize("job", JOBS.values(), ids=JOBS)
def test_a_job_is_not_written_while_nothing_changes(job: dict[str, Any], work: float) -> None:
    async def story() -> list[str]:
        api = MemoryApi(job, lambda _pod: work)
        leading = asyncio.create_task(Leader(api, {}).run())
        await asyncio.sleep(5)
        assert api.phase == ("Succeeded" if work < 5 else "Running")
        api.writes.clear()
        await asyncio.sleep(60)
        leading.cancel()
        await asyncio.gather(leading, return_exceptions=True)
        return api.writes

    assert run_in_virtual_time(story()) == []
