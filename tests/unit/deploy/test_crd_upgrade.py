"""Objects of an earlier commit's definitions are valid under these, and conversely: for an upgrade and a rollback."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from earlier_commits import EARLIER, definitions_of
from windlass.deploy.crds import DEFAULT, POD_GROUPS, crds


@pytest.fixture(params=EARLIER)
def earlier(request: pytest.FixtureRequest, tmp_path: Path) -> dict[str, Any]:
    """The definitions of an earlier commit, by name. Skips where the clone does not have it."""
    return definitions_of(request.param, tmp_path)


def incompatibilities(written: Any, read: Any, path: str = "") -> Iterator[str]:
    """Yields what makes an object of the schema `written` invalid under the schema `read`."""
    if written.get("type") != read.get("type"):
        yield f"{path}: {written.get('type')} becomes {read.get('type')}"
    for name in set(read.get("required", ())) - set(written.get("required", ())):
        if "default" not in read["properties"][name]:
            yield f"{path}.{name} becomes required"
    for name in set(written.get("enum", ())) - set(read.get("enum", written.get("enum", ()))):
        yield f"{path}: {name!r} is no value any more"
    for bound, worse in (("maximum", -1), ("maxLength", -1), ("maxItems", -1), ("minimum", 1), ("minLength", 1)):
        if bound in read and bound in written and worse * (read[bound] - written[bound]) > 0:
            yield f"{path}: {bound} {written[bound]} becomes {read[bound]}"
    for name in written.get("properties", {}).keys() & read.get("properties", {}).keys():
        yield from incompatibilities(written["properties"][name], read["properties"][name], f"{path}.{name}")
    if isinstance(written.get("items"), dict) and isinstance(read.get("items"), dict):
        yield from incompatibilities(written["items"], read["items"], f"{path}[]")


def versions(definition: Any) -> dict[str, Any]:
    return {each["name"]: each for each in definition["spec"]["versions"]}


def test_definitions_can_be_upgraded_and_rolled_back(earlier: dict[str, Any]) -> None:
    now = {each["metadata"]["name"]: json.loads(json.dumps(each)) for each in crds([*DEFAULT, POD_GROUPS])}
    assert earlier.keys() <= now.keys()
    for name, before in earlier.items():
        old, new = versions(before), versions(now[name])
        assert {key: each["storage"] for key, each in old.items()} == {
            key: each["storage"] for key, each in new.items()
        }
        for version in old:
            schemas = [each[version]["schema"]["openAPIV3Schema"] for each in (old, new)]
            assert list(incompatibilities(*schemas)) == [], f"upgrade of {name}"
            assert list(incompatibilities(*reversed(schemas))) == [], f"rollback of {name}"


@pytest.mark.parametrize(
    ("written", "read", "found"),
    [
        ({"type": "string"}, {"type": "integer"}, ": string becomes integer"),
        ({"properties": {}}, {"properties": {"a": {}}, "required": ["a"]}, ".a becomes required"),
        ({"enum": ["x", "y"]}, {"enum": ["x"]}, ": 'y' is no value any more"),
        ({"items": {"maximum": 5}}, {"items": {"maximum": 4}}, "[]: maximum 5 becomes 4"),
        ({"properties": {"a": {"minimum": 0}}}, {"properties": {"a": {"minimum": 1}}}, ".a: minimum 0 becomes 1"),
    ],
)
def test_an_incompatible_schema_is_found(written: Any, read: Any, found: str) -> None:
    assert list(incompatibilities(written, read)) == [found]
    assert list(incompatibilities(written, written)) == []
