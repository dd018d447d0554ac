"""Lookups of host names: a name server that does not answer delays nothing else in an agent."""

from __future__ import annotations

import socket
import threading
from types import SimpleNamespace

import pytest

from windlass.agent.event_loop import EventLoop
from windlass.agent.options import RendezvousOptions
from windlass.agent.rendezvous.endpoint import RendezvousEndpoint
from windlass.agent.rendezvous.leader_announcement import LeaderAnnouncement
from windlass.agent.rendezvous.sockets import ConnectAttempt


@pytest.fixture
def name_server(monkeypatch):
    """An event that every lookup of a name waits for."""
    answers, really = threading.Event(), socket.getaddrinfo

    def look_up(host, *given, **named):
        if host == "operator.test":
            answers.wait(5)
            host = "127.0.0.1"
        return really(host, *given, **named)

    monkeypatch.setattr(socket, "getaddrinfo", look_up)
    yield answers
    answers.set()


def test_an_agent_goes_on_while_a_name_server_does_not_answer(name_server):
    loop, events = EventLoop(), []
    with socket.create_server(("127.0.0.1", 0)) as server:

        def on_answer(link):
            events.append("connected" if link else "failed")
            if link:
                link.close()
            loop.end()

        def on_timer():
            events.append("timer")
            name_server.set()

        loop.after(0.01, on_timer)
        ConnectAttempt(loop, "operator.test", server.getsockname()[1], on_answer)
        loop.run()
    assert events == ["timer", "connected"]


def test_a_lookup_that_fails_is_no_answer(monkeypatch):
    loop, answers = EventLoop(), []

    def on_answer(link):
        answers.append(link)
        loop.end()

    def fail(*_):
        raise socket.gaierror(socket.EAI_AGAIN, "temporary failure")

    monkeypatch.setattr(socket, "getaddrinfo", lambda *_, **__: fail())
    ConnectAttempt(loop, "operator.test", 1, on_answer)
    loop.run()
    assert answers == [None]


def test_a_cancelled_lookup_calls_nothing(name_server):
    loop, answers = EventLoop(), []
    attempt = ConnectAttempt(loop, "operator.test", 1, answers.append)
    attempt.cancel()
    name_server.set()
    loop.after(0.05, loop.end)
    loop.run()
    assert answers == []


def test_a_leader_goes_on_while_the_name_of_its_endpoint_is_looked_up(name_server):
    """Else its followers miss its heartbeats, and stop their ranks."""
    loop, events = EventLoop(), []
    rendezvous = RendezvousOptions("operator.test", 1, "run")
    endpoint = RendezvousEndpoint(loop, rendezvous, "", lambda _listener: None)
    server = SimpleNamespace(is_leading=True)
    announcement = LeaderAnnouncement(loop, rendezvous, endpoint, server, SimpleNamespace(), events.append)

    def on_timer():
        events.append("timer")
        loop.end()

    loop.after(0.01, on_timer)
    announcement._announce()
    events.append("announcing")
    loop.run()
    assert events == ["announcing", "timer"]
    assert not name_server.is_set()
    announcement._attempt.cancel()
