"""The workshop as a view of the dashboard."""

import json

import pytest

from windlass.labs import dashboard_view
from windlass.labs.lab_catalog import all_labs, lab_ids

FIRST = lab_ids()[0]


@pytest.fixture
def progress(tmp_path, monkeypatch):
    monkeypatch.setenv("WINDLASS_LABS", str(tmp_path))
    file = tmp_path / ".workshop/progress.json"
    file.parent.mkdir()
    return file


def state_of(lab_id):
    return next(lab["state"] for lab in dashboard_view.read("")["labs"] if lab["id"] == lab_id)


def test_a_new_learner_sees_all_labs_and_cards(progress):
    found = dashboard_view.read("")
    assert [lab["id"] for lab in found["labs"]] == [lab.facts.id for lab in all_labs()]
    assert {lab["state"] for lab in found["labs"]} == {"new"}
    assert {"name": "gangs", "title": "Gangs"} in found["cards"]
    assert found["quizzes"][0] == {"module": "A", "title": "Pods and Jobs", "before": "", "after": ""}


def test_a_lab_is_started_and_then_accepted(progress):
    before = dashboard_view.stamp()
    progress.write_text(json.dumps({"labs": {FIRST: {"started_at": 5}}}))
    assert state_of(FIRST) == "started"
    assert dashboard_view.stamp() != before
    progress.write_text(json.dumps({"labs": {FIRST: {"started_at": 5, "accepted_at": 9}}}))
    assert state_of(FIRST) == "accepted"


def test_the_latest_score_of_a_quiz_is_shown(progress):
    progress.write_text(json.dumps({"quizzes": {"h-after": {"right": 3, "asked": 4, "at": 1}}}))
    assert {quiz["after"] for quiz in dashboard_view.read("")["quizzes"] if quiz["module"] == "H"} == {"3 of 4"}


@pytest.mark.parametrize("damaged", [b"{", b"\xff\xfe", b'{"labs": 7}', b"[]"])
def test_a_damaged_file_counts_as_empty_and_stays(progress, damaged):
    progress.write_bytes(damaged)
    assert state_of(FIRST) == "new"
    assert progress.read_bytes() == damaged


def test_labs_and_cards_have_texts(progress):
    assert dashboard_view.read(f"labs/{FIRST}")["text"].startswith("# ")
    assert dashboard_view.read("cards/gangs")["text"].startswith("# Gangs")


@pytest.mark.parametrize("name", ["labs/z9", "cards/none", "cards/../../secret", "labs", "cards/", "other/x"])
def test_an_unknown_part_is_none(progress, name):
    assert dashboard_view.read(name) is None
