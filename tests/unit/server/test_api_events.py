"""Event streams of jobs: past events, new events, and resumption."""

from __future__ import annotations

import json
from typing import Any

import pytest

from windlass.core.lifecycle.events import Exit, Started


def events(answer) -> list[dict[str, Any]]:
    """Events of an ended stream, with their ids."""
    assert (answer.status, answer.kind) == (200, "text/event-stream")
    blocks = answer.raw.decode().split("\n\n")[1:-1]  # the first block is a comment
    fields = [dict(line.split(": ", 1) for line in block.split("\n")) for block in blocks]
    assert [each["event"] for each in fields] == [json.loads(each["data"])["type"] for each in fields]
    return [{**json.loads(each["data"]), "id": int(each.get("id", 0))} for each in fields]


def way(found: list[dict[str, Any]]) -> list[str]:
    return list(dict.fromkeys(each["after"] for each in found if each["type"] == "transition"))


class Follower:
    """A client that reads events as they arrive."""

    def __init__(self, daemon, names: str, after: int = 0) -> None:
        self.came: list[dict[str, Any]] = []
        self.task = daemon.start(self._read(daemon.service, names, after))

    async def _read(self, service, names: str, after: int) -> None:
        async for event in await service.events.follow(names, after):
            self.came.append(event)

    def take(self) -> list[dict[str, Any]]:
        came, self.came = self.came, []
        return came


def test_an_ended_job_sends_all_its_events(daemon, job):
    daemon.submit(job())
    daemon.end("digits-1", Exit(3))
    found = events(daemon.get("/v1/events?job=digits"))
    assert way(found) == ["Created", "Queued", "Admitted", "Running", "Failed"]
    assert [each["type"] for each in found[-2:]] == ["end", "all ended"]
    assert found[-2]["job"]["exit_code"] == 3


def test_an_interrupted_follower_resumes_after_its_last_event(daemon, job):
    daemon.submit(job())
    daemon.end("digits-1", Exit(0))
    whole = events(daemon.get("/v1/events?job=digits"))
    for place, event in enumerate(whole[:-2]):
        rest = events(daemon.get("/v1/events?job=digits", last_event_id=str(event["id"])))
        assert rest == whole[place + 1 :]


def test_events_of_several_jobs_end_with_the_last_of_them(daemon, job):
    daemon.submit(job("a"), job("b"), job("c"))
    daemon.end("a-1", Exit(0))
    follower = Follower(daemon, "a,b")
    assert {each["job_id"] for each in follower.take() if each["type"] == "transition"} == {"a-1", "b-2"}
    daemon.end("b-2", Exit(0))
    daemon.settle()
    assert [each["type"] for each in follower.take()][-2:] == ["end", "all ended"]
    assert follower.task.done()


def test_events_are_sent_as_they_happen(daemon, job):
    daemon.submit(job("one", gpu=4, replicas=2), job("two"))
    follower = Follower(daemon, "two")
    answer = follower.take()
    assert (answer[-1]["type"], answer[-1]["job"]["position"], answer[-1]["job"]["phase"]) == ("verdict", 1, "Queued")
    daemon.happen("one-1", Started(1))
    daemon.settle()
    assert follower.take() == []  # the verdict is the same
    daemon.end("one-1", Exit(2))
    daemon.settle()
    assert way(follower.take()) == ["Admitted"]


def test_a_changed_verdict_is_sent_again(daemon, job):
    daemon.submit(job("one", gpu=4, replicas=2), job("two"))
    follower = Follower(daemon, "two")
    follower.take()
    daemon.submit(job("urgent", priority=5))
    daemon.settle()
    assert [(each["type"], each["job"]["position"]) for each in follower.take()] == [("verdict", 2)]


def test_all_jobs_are_followed_without_an_end(daemon, job):
    follower = Follower(daemon, "")
    daemon.submit(job())
    daemon.end("digits-1", Exit(0))
    daemon.settle()
    assert way(follower.take()) == ["Created", "Queued", "Admitted", "Running", "Succeeded"]
    assert not follower.task.done()


def test_a_silent_stream_gets_a_keep_alive_comment(daemon, job, monkeypatch):
    monkeypatch.setattr("windlass.server.feed._HEARTBEAT_S", 0)
    daemon.submit(job())
    follower = Follower(daemon, "digits")
    assert follower.take()[-1] == {"type": "quiet"}
    daemon.feed.close()
    daemon.settle()
    assert follower.task.done()


def test_followers_leave_with_the_daemon(daemon, job):
    daemon.submit(job())
    follower = Follower(daemon, "digits")
    daemon.feed.close()
    daemon.settle()
    assert follower.task.done()
    assert daemon.feed._waiting == set()
    assert "all ended" not in [each["type"] for each in follower.take()]


@pytest.mark.parametrize("number", ["x", "-1", "1.5", "", "9" * 19, "9" * 5_000])
def test_an_invalid_event_number_is_refused(daemon, job, number):
    daemon.submit(job())
    status, code, message = daemon.get("/v1/events?job=digits", last_event_id=number).error
    assert (status, code) == (400, "bad_request")
    assert len(message) < 100


def test_a_stream_after_the_last_event_contains_only_the_end(daemon, job):
    daemon.submit(job())
    daemon.end("digits-1", Exit(0))
    found = events(daemon.get("/v1/events?job=digits", last_event_id=str(2**62)))
    assert [each["type"] for each in found] == ["end", "all ended"]
