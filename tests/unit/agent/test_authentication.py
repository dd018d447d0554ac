"""The proof of the gang's secret on a connection between two agents."""

import pytest

from windlass.agent.rendezvous.authentication import Authentication

SECRET = b"5f" * 32


def connected(opener=SECRET, acceptor=SECRET):
    """Both sides of a connection after their challenges."""
    sides = Authentication(opener, accepts=False), Authentication(acceptor, accepts=True)
    for mine, other in (sides, sides[::-1]):
        assert mine.take_challenge(other.challenge)
        assert mine.is_challenged
    return sides


def test_messages_of_both_sides_are_verified_in_their_order():
    opener, acceptor = connected()
    assert not acceptor.is_peer_proven
    lines = [opener.sign(body) for body in (b"{}", b"{}", b"three")]
    assert len(set(lines)) == 3
    assert [acceptor.verify(line) for line in lines] == [b"{}", b"{}", b"three"]
    assert acceptor.is_peer_proven
    assert opener.verify(acceptor.sign(b"back")) == b"back"


@pytest.mark.parametrize("secrets", [(SECRET, SECRET[::-1]), (b"", SECRET), (SECRET, b"")])
def test_a_side_with_another_secret_is_not_proven(secrets):
    opener, acceptor = connected(*secrets)
    assert acceptor.verify(opener.sign(b"hello")) is None
    assert opener.verify(acceptor.sign(b"hello")) is None
    assert not opener.is_peer_proven
    assert not acceptor.is_peer_proven


def test_a_message_is_not_accepted_twice_or_out_of_order():
    opener, acceptor = connected()
    first, second = opener.sign(b"1"), opener.sign(b"2")
    assert acceptor.verify(second) is None
    assert acceptor.verify(first) == b"1"
    assert acceptor.verify(first) is None
    assert acceptor.verify(second) == b"2"


def test_a_message_of_another_connection_is_not_accepted():
    opener, _ = connected()
    _, acceptor = connected()
    assert acceptor.verify(opener.sign(b"hello")) is None


def test_a_message_is_not_accepted_by_its_sender():
    """Also where the other side repeats the challenge of this one."""
    opener, _ = connected()
    assert opener.verify(opener.sign(b"hello")) is None
    mirrored = Authentication(SECRET, accepts=True)
    assert mirrored.take_challenge(mirrored.challenge)
    assert mirrored.verify(mirrored.sign(b"hello")) is None


@pytest.mark.parametrize(
    "alter", [lambda line: line[:-1] + b"!", lambda line: b"0" * 64 + line[64:], lambda _line: b""]
)
def test_an_altered_message_is_not_accepted(alter):
    opener, acceptor = connected()
    assert acceptor.verify(alter(opener.sign(b"hello"))) is None


@pytest.mark.parametrize("line", [b"", b"{}", b"windlass-agent-1 ", b"windlass-agent-1 " + b"0" * 63, b"0" * 81])
def test_another_first_line_is_no_challenge(line):
    side = Authentication(SECRET, accepts=True)
    assert not side.take_challenge(line)
    assert not side.is_challenged


def test_the_secret_is_in_no_line():
    opener, _ = connected()
    assert SECRET not in opener.challenge + opener.sign(b"hello")
