"""Objects that are nested deeper than a decoder reads: each is left out by itself."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from windlass.backends.kubernetes.client.mirror import Malformed, Mirror
from windlass.backends.kubernetes.client.object_cache import ObjectRevision
from windlass.backends.kubernetes.client.paging import ObjectList, read_page
from windlass.backends.kubernetes.client.shallow_json import decode_object, elements, members
from windlass.backends.kubernetes.client.watch import read_event

values = st.recursive(
    st.none() | st.booleans() | st.integers(-9, 9) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)


@given(st.dictionaries(st.text(), values, max_size=4), st.sampled_from([None, 1]))
def test_the_members_of_an_object_are_found(value: dict[str, Any], indent: int | None) -> None:
    found = members(json.dumps(value, indent=indent).encode())
    assert {name: json.loads(each) for name, each in found.items()} == value


@given(st.lists(values, max_size=4), st.sampled_from([None, 1]))
def test_the_elements_of_an_array_are_found(value: list[Any], indent: int | None) -> None:
    assert [json.loads(each) for each in elements(json.dumps(value, indent=indent).encode())] == value


def manifest(name: str, depth: int = 0) -> bytes:
    fields = b'{"f:a":' * depth + b"{}" + b"}" * depth
    about = b'{"name":"%s","namespace":"ml","uid":"%s","resourceVersion":"7","managedFields":[%s]}'
    deep = b'{"a":[' * depth + b"1" + b"]}" * depth
    return b'{"metadata":' + about % (name.encode(), name.encode(), fields) + b',"spec":' + deep + b"}"


DEPTHS = pytest.mark.parametrize("depth", [300, 1_200, 5_000])


@DEPTHS
def test_a_list_with_an_object_that_is_nested_too_deep_brings_all_others(depth: int) -> None:
    malformed: list[Malformed] = []
    mirror = Mirror(orjson.loads, malformed.append)
    items = b",".join((manifest("a"), manifest("deep", depth), manifest("b")))
    page = read_page(b'{"kind":"List","metadata":{"resourceVersion":"9","continue":"c"},"items":[' + items + b"]}")
    assert (page.resource_version, page.continuation, len(page.items)) == ("9", "c", 3)
    found = [each for item in page.items if (each := mirror.decode_listed(bytes(item))) is not None]
    mirror.apply_list(ObjectList("9", found))
    is_malformed = depth > 500
    assert {name for _, name in mirror.cache.objects} == {"a", "b"} | (set() if is_malformed else {"deep"})
    assert [each.revision for each in malformed] == [ObjectRevision("ml", "deep", "deep", 7)] * is_malformed


@DEPTHS
def test_a_watch_goes_on_after_an_object_that_is_nested_too_deep(depth: int) -> None:
    mirror = Mirror(orjson.loads, lambda _malformed: None)
    lines = [b'{"type":"ADDED","object":' + manifest(name, depth) + b"}" for name, depth in (("deep", depth), ("b", 0))]
    events = [read_event(line) for line in lines]
    assert [each.type for each in events] == ["ADDED", "ADDED"]
    assert isinstance(events[0].object, msgspec.Raw)
    mirror.apply_events(events)
    assert ("ml", "b") in mirror.cache.objects
    assert mirror.position == 7


def test_an_object_in_a_list_is_decoded_without_its_too_deep_fields() -> None:
    deep = '{"a":' * 2000 + "1" + "}" * 2000
    managed = f'{{"name": "j", "uid": "u", "managedFields": [{deep}]}}'
    text = f'{{"kind": "TrainingJob", "metadata": {managed}, "spec": {deep}, "status": {{"phase": "x"}}}}'
    about = {"name": "j", "uid": "u", "managedFields": None}
    expected = {"kind": "TrainingJob", "metadata": about, "status": {"phase": "x"}}
    assert decode_object(text.encode()) == expected


@given(st.dictionaries(st.text(), values, max_size=4))
def test_other_objects_in_a_list_are_decoded_whole(value: dict[str, Any]) -> None:
    assert decode_object(orjson.dumps(value)) == value
