"""Views by the parameters of a request: requests that mean the same are one view."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from windlass.server.dashboard.audience import Audience
from windlass.server.dashboard.pages import PageViews, _offsets
from windlass.server.errors import ApiError


class Anything:
    """A service that is not asked: views are compared by their keys."""

    def __getattr__(self, _name: str) -> Any:
        return Anything()

    def __call__(self) -> Any:
        return Anything()


@pytest.fixture
def views() -> PageViews:
    nothing: Any = Anything()
    return PageViews(nothing, nothing, nothing, nothing, nothing, Audience(frozenset({"team-a"})))


def key(views: PageViews, view: str, name: str, filters: dict[str, str]) -> Any:
    found = views.find(view, name, filters)
    assert found is not None
    return found.key


@pytest.mark.parametrize(
    ("view", "name", "same", "other"),
    [
        ("overview", "", [{}, {"x": "1"}, {"hours": "2"}], None),
        ("nodes", "", [{}, {"limit": "7"}], None),
        ("schedules", "", [{}, {"name": "nightly"}], None),
        ("queue", "", [{}, {"limit": "200"}, {"limit": "0200"}, {"progress": ""}, {"y": "z"}], {"limit": "7"}),
        ("queue", "", [{"search": "BIG"}, {"search": "big"}], {"search": "wide"}),
        ("queue", "", [{"user": "ann,bob"}, {"user": "bob,ann"}], {"user": "ann"}),
        ("history", "", [{}, {"since": ""}, {"since": "0"}, {"limit": "9"}], {"since": "5"}),
        ("history", "", [{"state": "Failed"}, {"state": "Failed", "name": ""}], {"state": "Succeeded"}),
        ("course", "", [{}, {"hours": "1"}, {"hours": "-4"}, {"points": "9"}], {"hours": "24"}),
        ("course", "default", [{"hours": "9999999"}, {"hours": "8760"}], {"hours": "24"}),
        ("metrics", "team-a/x", [{}, {"since": "0"}, {"statistic": "mean"}, {"z": "1"}], {"statistic": "max"}),
        ("why", "team-a/x", [{}, {"what_if": " "}], {"what_if": "gpus=1"}),
        ("job", "team-a/x", [{}, {"a": "b"}], None),
    ],
)
def test_requests_that_mean_the_same_are_one_view(
    views: PageViews, view: str, name: str, same: list[dict[str, str]], other: dict[str, str] | None
) -> None:
    keys = {key(views, view, name, filters) for filters in same}
    assert len(keys) == 1
    assert other is None or key(views, view, name, other) not in keys


@pytest.mark.parametrize(("number", "is_cut"), [(200, False), (5_000, True)])
def test_a_listing_of_schedules_says_that_there_are_more(views: PageViews, number: int, *, is_cut: bool) -> None:
    line = {"notes": [{"message": "first"}, {"message": "latest"}], "runs": []}
    views.service.list_schedules = lambda _is_shown: ({**line, "id": f"team-a/s{each}"} for each in range(number))
    found = views.find("schedules", "", {})
    assert found is not None
    shown = asyncio.run(found.produce())
    assert (len(shown["schedules"]), shown["is_cut"]) == (200, is_cut)
    assert shown["schedules"][0]["notes"] == [{"message": "latest"}]


@pytest.mark.parametrize(("view", "name"), [("none", ""), ("job", ""), ("overview", "x"), ("none", "x")])
def test_other_paths_are_no_view(views: PageViews, view: str, name: str) -> None:
    assert views.find(view, name, {}) is None


@pytest.mark.parametrize(
    ("view", "name", "filters"),
    [
        ("queue", "", {"limit": "many"}),
        ("history", "", {"since": "yesterday"}),
        ("course", "", {"hours": "1e9"}),
        ("metrics", "team-a/x", {"statistic": "median"}),
    ],
)
def test_a_wrong_parameter_is_refused(views: PageViews, view: str, name: str, filters: dict[str, str]) -> None:
    with pytest.raises(ApiError) as refused:
        views.find(view, name, filters)
    assert next(iter(filters.values())) in refused.value.message


@pytest.mark.parametrize("text", ["[" * 5_000, "{", "[]", '{"0": -1}', '{"0": "x"}'])
def test_offsets_that_no_answer_has_named_are_refused(text: str) -> None:
    with pytest.raises(ApiError, match="not the offsets of an earlier answer"):
        _offsets(text)


class Unrecorded(Anything):
    """A service of a state without telemetry."""

    def has_telemetry(self) -> bool:
        return False


@pytest.mark.parametrize(("view", "name"), [("course", ""), ("course", "default")])
def test_the_course_of_a_new_daemon_is_empty_before_its_first_frame(view: str, name: str):
    nothing: Any = Anything()
    service: Any = Unrecorded()
    found = PageViews(service, nothing, nothing, nothing, nothing, Audience()).find(view, name, {})
    assert found is not None
    assert asyncio.run(found.produce()) == {"series": []}
