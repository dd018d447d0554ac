import pytest

from windlass.backends.kubernetes.client.api_errors import Unreachable
from windlass.backends.kubernetes.client.paging import read_page


def test_a_page_has_its_continuation():
    page = read_page(b'{"metadata":{"resourceVersion":"7","continue":"t"},"items":[{"a":1},{"b":2}]}')
    assert (page.resource_version, page.continuation, list(map(bytes, page.items))) == (
        "7",
        "t",
        [b'{"a":1}', b'{"b":2}'],
    )


def test_an_empty_list_may_be_written_as_null():
    assert read_page(b'{"metadata":{},"items":null}').items == []


def test_a_malformed_list_does_not_come_from_an_api_server():
    with pytest.raises(Unreachable, match="no list"):
        read_page(b"<html>")
