import pytest

from windlass.backends.kubernetes.client.api_errors import Unreachable
from windlass.backends.kubernetes.client.watch import read_event, split_lines


def test_lines_are_cut_and_what_is_begun_is_kept():
    assert split_lines(b'{"a":1}\n{"b":2}\n{"c"') == ([b'{"a":1}', b'{"b":2}'], b'{"c"')
    assert split_lines(b"\n\n") == ([], b"")


def test_an_event_is_its_type_and_an_object_that_is_not_looked_into():
    event = read_event(b'{"type":"ADDED","object":{"spec":7}}')
    assert (event.type, bytes(event.object)) == ("ADDED", b'{"spec":7}')


def test_a_proxy_in_between_is_no_watch():
    with pytest.raises(Unreachable, match="no event"):
        read_event(b"<html>")
