import pytest

from windlass.backends.kubernetes.client.api_errors import Unreachable
from windlass.backends.kubernetes.client.watch import read_event, split_lines


def test_text_is_split_into_lines_and_an_incomplete_one_is_kept():
    assert split_lines(b'{"a":1}\n{"b":2}\n{"c"') == ([b'{"a":1}', b'{"b":2}'], b'{"c"')
    assert split_lines(b"\n\n") == ([], b"")


def test_an_event_is_its_type_and_an_undecoded_object():
    event = read_event(b'{"type":"ADDED","object":{"spec":7}}')
    assert (event.type, bytes(event.object)) == ("ADDED", b'{"spec":7}')


def test_the_page_of_a_proxy_is_no_watch_event():
    with pytest.raises(Unreachable, match="no event"):
        read_event(b"<html>")
