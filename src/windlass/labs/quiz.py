"""Quizzes: the questions of a module, asked before and after its labs, and the score of answers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import msgspec
import yaml

from windlass.jobs.syntax.names import did_you_mean
from windlass.labs.errors import LabError

QUIZZES = Path(__file__).with_name("quizzes")
PARTS = ("before", "after")


@dataclass(frozen=True, slots=True)
class Question:
    """One question. `right`: indexes of the right options; `why`: the explanation that follows an answer."""

    id: str
    when: str
    ask: str
    options: tuple[str, ...]
    right: tuple[int, ...]
    why: str

    def is_right(self, chosen: Sequence[int]) -> bool:
        """Whether exactly the right options were chosen."""
        return sorted(set(chosen)) == sorted(self.right)


@dataclass(frozen=True, slots=True)
class Quiz:
    """The questions of one module."""

    module: str
    title: str
    questions: tuple[Question, ...]

    def part(self, when: str) -> tuple[Question, ...]:
        """Returns the questions of a part: `before` or `after`."""
        return tuple(question for question in self.questions if question.when == when)


def quiz_names() -> list[str]:
    """Returns the letters of the modules that have a quiz."""
    return sorted(path.stem for path in QUIZZES.glob("*.yaml"))


def read_quiz(module: str) -> Quiz:
    """Reads the quiz of a module by its letter. Raises LabError."""
    name = module.lower()
    if name not in quiz_names():
        known = f"; known: {', '.join(quiz_names())}" if quiz_names() else ""
        raise LabError(f"there is no quiz {module[:40]!r}{did_you_mean(name, quiz_names())}\nname a module{known}")
    path = QUIZZES / f"{name}.yaml"
    try:
        quiz = msgspec.convert(yaml.safe_load(path.read_text(encoding="utf-8")), Quiz)
    except (yaml.YAMLError, msgspec.ValidationError) as error:
        raise LabError(f"{path} is no quiz: {error}\ncompare it with another quiz") from None
    for question in quiz.questions:
        if question.when not in PARTS or not question.right or max(question.right) >= len(question.options):
            raise LabError(f"{path}: question {question.id} has no such option or part\nwhen is before or after")
    return quiz


def parse_answer(text: str, question: Question) -> list[int]:
    """Returns the indexes of options typed as "1" or "1,3", counted from 1. Raises LabError."""
    words = text.replace(",", " ").split()
    numbers = [int(word) for word in words if word.isdecimal()]
    if not numbers or len(numbers) < len(words) or not all(1 <= each <= len(question.options) for each in numbers):
        raise LabError(f"an answer is a number from 1 to {len(question.options)}, or several such as 1,3")
    return [number - 1 for number in numbers]
