"""Views that packages above the server add."""

import asyncio
from importlib.metadata import EntryPoint

import pytest

from windlass.server.dashboard import view_extensions
from windlass.server.dashboard.view_extensions import GROUP, find_extension_view
from windlass.server.errors import ApiError


class Lessons:
    """A view of this test."""

    number = 1

    def stamp(self):
        return str(self.number)

    def read(self, name):
        return {"": {"all": self.number}, "a": {"text": "A"}}.get(name)


LESSONS = Lessons()


@pytest.fixture(autouse=True)
def registered(monkeypatch):
    def registered_views(group, name):
        point = EntryPoint("lessons", f"{__name__}:LESSONS", GROUP)
        return [point] if (group, name) == (GROUP, "lessons") else []

    monkeypatch.setattr(view_extensions, "entry_points", registered_views)
    monkeypatch.setattr(EntryPoint, "load", lambda _point: LESSONS)
    view_extensions._load.cache_clear()
    yield
    view_extensions._load.cache_clear()


def test_a_registered_view_is_read_with_its_parts():
    async def read(name):
        return await (await find_extension_view("lessons", name)).produce()

    assert asyncio.run(read("")) == {"all": 1}
    assert asyncio.run(read("a")) == {"text": "A"}


def test_the_key_of_a_view_changes_with_its_records(monkeypatch):
    before = asyncio.run(find_extension_view("lessons", "")).key
    assert asyncio.run(find_extension_view("lessons", "")).key == before
    monkeypatch.setattr(LESSONS, "number", 2)
    assert asyncio.run(find_extension_view("lessons", "")).key != before


def test_a_part_that_does_not_exist_is_refused():
    with pytest.raises(ApiError, match="lessons has no part 'z'"):
        asyncio.run(asyncio.run(find_extension_view("lessons", "z")).produce())


def test_a_view_that_no_package_adds_is_none():
    assert asyncio.run(find_extension_view("other", "")) is None
