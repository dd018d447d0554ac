"""The client of the API: its requests, and its reactions to every kind of answer and silence."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from windlass.core.model.job import Job, Role
from windlass.jobs.description.submission import Submission
from windlass.server import client as ours
from windlass.server.client import ApiEventStream, Client
from windlass.server.discovery import find_controller, find_daemon, open_state
from windlass.server.errors import HTTP_STATUS, ApiError, ErrorCode, error_from_json

OK = b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\n\r\n"


class Plug:
    """A connection that returns these pieces of data, then ends or raises."""

    def __init__(self, *pieces: bytes | OSError) -> None:
        self.sent = b""
        self.closed = False
        self._pieces = list(pieces)

    def sendall(self, data: bytes) -> None:
        self.sent += data

    def recv(self, _most: int) -> bytes:
        piece = self._pieces.pop(0) if self._pieces else b""
        if isinstance(piece, OSError):
            raise piece
        return piece

    def close(self) -> None:
        self.closed = True


@pytest.fixture
def answers(monkeypatch):
    """`answers(piece, …)`: sets the daemon's answer to the next request."""

    def say(*pieces: bytes | OSError) -> Plug:
        plug = Plug(*pieces)
        monkeypatch.setattr(ours.unix, "connect", lambda _folder, _timeout: plug)
        return plug

    return say


@pytest.fixture
def client() -> Client:
    return Client(Path("/state"))


def refused(status: int, body: bytes) -> bytes:
    return b"HTTP/1.1 %d Refused\r\n\r\n%b" % (status, body)


def test_an_answer_may_arrive_in_any_pieces(answers, client):
    plug = answers(b"HTTP/1.1 200", b" OK\r\n\r", b'\n{"jobs": [', '{"id": "größe-1"}]}'.encode()[:-6], b'-1"}]}')
    assert client.jobs(user="zoë", phase="", limit=5, all=None) == [{"id": "größe-1"}]
    assert plug.sent == b"GET /v1/jobs?user=zo%C3%AB&limit=5 HTTP/1.0\r\nContent-Length: 0\r\n\r\n"
    assert plug.closed


def test_a_submission_arrives_as_it_was_sent(answers, client):
    from windlass.server.submission_request import read_submissions  # noqa: PLC0415 - the server's side

    handed = Submission(Job("digits", (Role(replicas=2, command=("echo", "größe")),)), array=(0, 1))
    plug = answers(OK + b'{"ids": ["digits-1"]}')
    assert client.submit([handed], environment={"A": "b"}, owner="1:2:x", key="k", again=True) == ["digits-1"]
    head, _, body = plug.sent.partition(b"\r\n\r\n")
    assert head.startswith(b"POST /v1/jobs HTTP/1.0\r\n")
    assert f"Content-Length: {len(body)}".encode() in head
    found = read_submissions(json.loads(body))
    assert (found.submissions, found.environment, found.owner, found.key) == ((handed,), {"A": "b"}, "1:2:x", "k")
    assert found.again is True


def test_a_name_is_one_part_of_a_path(answers, client):
    plug = answers(OK + b"{}")
    client.act("cancel", "a?b c", by="ada", now=True)
    assert plug.sent.startswith(b"POST /v1/jobs/a%3Fb%20c/cancel HTTP/1.0")
    assert plug.sent.endswith(b'{"by": "ada", "now": true}')


# --- errors -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("code", ErrorCode)
def test_every_error_arrives_as_it_was_raised(answers, client, code):
    raised = ApiError(code, "what is wrong", "what to do")
    answers(refused(HTTP_STATUS[code], json.dumps(raised.as_json()).encode()))
    with pytest.raises(ApiError) as caught:
        client.nodes()
    assert caught.value == raised


@pytest.mark.parametrize(
    "body", [b"{}", b"[]", b'{"error": "no"}', b'{"error": {"code": "new", "message": "x", "fix": ""}}']
)
def test_an_unexplained_error_is_an_internal_one(answers, client, body):
    answers(refused(418, body))
    with pytest.raises(ApiError) as caught:
        client.nodes()
    assert (caught.value.code, "HTTP 418" in str(caught.value)) == (ErrorCode.INTERNAL, True)


def test_every_code_has_a_status_that_is_an_error():
    assert set(HTTP_STATUS) == set(ErrorCode)
    assert all(400 <= status < 600 for status in HTTP_STATUS.values())
    assert error_from_json(None, 500).code is ErrorCode.INTERNAL


@pytest.mark.parametrize("trouble", [FileNotFoundError(), ConnectionRefusedError()])
def test_a_socket_without_a_listener_is_no_daemon(monkeypatch, client, trouble):
    monkeypatch.setattr(ours.unix, "connect", raising(trouble))
    with pytest.raises(ApiError, match="no daemon runs") as caught:
        client.ping()
    assert (caught.value.code, caught.value.fix) == (ErrorCode.NO_DAEMON, "start one with: windlass up -d")


def test_the_folder_of_another_user_is_refused(monkeypatch):
    monkeypatch.setattr(ours.unix, "connect", raising(PermissionError()))
    for ask in (find_daemon, open_state, find_controller):
        with pytest.raises(ApiError, match="belongs to another user") as caught:
            ask(Path("/state"))
        assert caught.value.code is ErrorCode.NOT_ALLOWED


def raising(trouble: BaseException):
    def fail(*_words: object) -> None:
        raise trouble

    return fail


@pytest.mark.parametrize(
    ("pieces", "message"),
    [
        ((), "ended before it answered"),
        ((b"HTTP/1.1 200 OK\r\n",), "ended before it answered"),
        ((ConnectionResetError(),), "ended before it answered"),
        ((OK + b'{"jobs": [', ConnectionResetError()), "ended before it answered"),
        ((OK + b'{"jobs": [',), "ended before it answered"),
        ((TimeoutError(),), "has not answered for 60 s"),
        ((OK, TimeoutError()), "has not answered for 60 s"),
    ],
)
def test_a_daemon_that_ends_or_hangs_is_an_error_and_the_connection_is_closed(answers, client, pieces, message):
    plug = answers(*pieces)
    with pytest.raises(ApiError, match=message) as caught:
        client.jobs()
    assert caught.value.code is ErrorCode.GONE
    assert plug.closed


# --- events -------------------------------------------------------------------------------------------


@pytest.fixture
def ready(monkeypatch):
    """All data of the other end is readable at once."""
    monkeypatch.setattr(ours.select, "select", lambda read, *_rest: (read, [], []))


def event(number: int, **data: object) -> bytes:
    return b"id: %d\nevent: x\ndata: %b\n\n" % (number, json.dumps(data).encode())


def test_events_are_parsed_from_partial_data(answers, ready):
    one, two = event(7, type="one"), event(9, type="two", text="größe")
    plug = answers(b"HTTP/1.1 200 OK\r\n\r\n: welcome\n\n" + one[:10], one[10:] + two[:-1], b"\n: still here\n\n")
    stream = ApiEventStream(Path("/state"), "a,b", after=3)
    assert plug.sent.startswith(b"GET /v1/events?job=a%2Cb HTTP/1.0\r\n")
    assert b"Last-Event-ID: 3\r\n" in plug.sent
    assert (stream.poll(0), stream.after) == ([{"type": "one"}], 7)
    assert (stream.poll(0), stream.after) == ([{"type": "two", "text": "größe"}], 9)
    with pytest.raises(ApiError) as caught:
        stream.poll(0)
    assert caught.value.code is ErrorCode.GONE
    stream.close()
    assert plug.closed


def test_a_poll_without_data_returns_no_events(answers, monkeypatch):
    monkeypatch.setattr(ours.select, "select", lambda *_all: ([], [], []))
    answers(b"HTTP/1.1 200 OK\r\n\r\n: welcome\n\n")
    assert ApiEventStream(Path("/state"), "").poll(0) == []


def test_a_refused_stream_raises_its_error(answers):
    body = json.dumps(ApiError(ErrorCode.NO_SUCH_JOB, "no job is called 'x'").as_json()).encode()
    plug = answers(refused(404, body))
    with pytest.raises(ApiError) as caught:
        ApiEventStream(Path("/state"), "x")
    assert caught.value.code is ErrorCode.NO_SUCH_JOB
    assert plug.closed
