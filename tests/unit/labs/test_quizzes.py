"""The quizzes: their form, the modules that they cover, and answers that their form does not reveal."""

from collections import Counter
from pathlib import Path

import pytest
import yaml

import windlass

FILES = sorted((Path(windlass.__file__).parent / "labs/quizzes").glob("*.yaml"))
QUIZZES = [yaml.safe_load(file.read_text(encoding="utf-8")) for file in FILES]
QUESTIONS = [question for quiz in QUIZZES for question in quiz["questions"]]
SINGLE = [question for question in QUESTIONS if len(question["right"]) == 1]


def test_each_module_has_a_quiz_with_questions_before_and_after():
    assert [quiz["module"] for quiz in QUIZZES] == list("ABCDEFGHIJKL") == [file.stem.upper() for file in FILES]
    for quiz in QUIZZES:
        times = Counter(question["when"] for question in quiz["questions"])
        assert times.keys() == {"before", "after"}
        assert min(times.values()) >= 3


def test_there_are_at_least_ninety_questions_with_ids_of_their_own():
    assert len({question["id"] for question in QUESTIONS}) == len(QUESTIONS) >= 90
    assert len({question["ask"] for question in QUESTIONS}) == len(QUESTIONS)


@pytest.mark.parametrize("question", QUESTIONS, ids=lambda question: question["id"])
def test_a_question_has_options_a_right_one_and_an_explanation(question):
    assert question.keys() == {"id", "when", "ask", "options", "right", "why"}
    assert all(isinstance(option, str) for option in question["options"])
    assert len(set(question["options"])) == len(question["options"]) == 4
    assert question["right"] == sorted(set(question["right"]))
    assert 1 <= len(question["right"]) < 4
    assert all(0 <= index < 4 for index in question["right"])
    assert len(question["why"].split()) >= 12


def test_an_id_names_its_module():
    assert all(question["id"].startswith(quiz["module"].lower()) for quiz in QUIZZES for question in quiz["questions"])


def test_the_longest_option_is_right_no_more_often_than_by_chance():
    longest = [max(range(4), key=lambda index: len(question["options"][index])) for question in SINGLE]
    hits = sum(index in question["right"] for index, question in zip(longest, SINGLE, strict=True))
    assert len(SINGLE) / 8 < hits < len(SINGLE) * 3 / 8


def test_right_options_are_spread_over_the_places():
    places = Counter(question["right"][0] for question in SINGLE)
    assert all(len(SINGLE) / 8 < places[index] < len(SINGLE) * 3 / 8 for index in range(4))
