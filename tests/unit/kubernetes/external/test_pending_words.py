"""Pods that wait are told why, in their condition."""

import asyncio

from guest_pods import pod

from windlass.backends.kubernetes.client.api_errors import ApiError
from windlass.backends.kubernetes.status import pending_conditions
from windlass.backends.kubernetes.status.pending_conditions import PendingConditions


class Connection:
    def __init__(self):
        self.said = []

    async def patch(self, _resource, _namespace, name, body, **_given):
        [condition] = body["status"]["conditions"]
        self.said.append((name, condition["reason"], condition["message"]))
        if name == "gone":
            raise ApiError(404, "NotFound", "no such pod")


def told(monkeypatch, story):
    monkeypatch.setattr(pending_conditions, "_DELAY", 0)
    monkeypatch.setattr(pending_conditions, "_EVERY", 0)
    connection, troubles = Connection(), []

    async def whole():
        words = PendingConditions(connection, troubles.append)
        for step in story:
            step(words)
            for _ in range(20):
                await asyncio.sleep(0)
        await words.close()

    asyncio.run(whole())
    assert troubles == []
    return connection.said


def test_every_pod_that_waits_is_told_once_until_the_sentence_changes(monkeypatch):
    pods = [pod("a"), pod("gone"), pod("b", node="n1"), pod("c", leaving=True)]
    story = [lambda words, text=text: words.say("g", text, lambda: pods) for text in ("no gpu", "no gpu", "no cpu")]
    assert told(monkeypatch, story) == [
        ("a", "Unschedulable", "no gpu"),
        ("gone", "Unschedulable", "no gpu"),
        ("a", "Unschedulable", "no cpu"),
        ("gone", "Unschedulable", "no cpu"),
    ]


def test_a_gang_that_waits_no_more_is_told_anew_when_it_waits_again(monkeypatch):
    def say(words):
        words.say("g", "no gpu", lambda: [pod("a")])

    assert len(told(monkeypatch, [say, lambda words: words.forget("g"), say])) == 2
