"""Asks the questions of a quiz and explains each answer."""

from __future__ import annotations

import sys
import textwrap
from collections.abc import Sequence

from windlass.cli.errors import UsageError
from windlass.labs.errors import LabError
from windlass.labs.quiz import Question, parse_answer

_WIDTH = 100


def ask_questions(questions: Sequence[Question]) -> int:
    """Asks all questions on standard input; returns the number of right answers. Raises UsageError at its end."""
    right = 0
    for number, question in enumerate(questions, 1):
        print(f"\n{number}/{len(questions)}  {_filled(question.ask)}")
        for index, option in enumerate(question.options, 1):
            print(f"  {index}. {_filled(option)}")
        is_right = question.is_right(_read_answer(question))
        right += is_right
        known = ", ".join(str(index + 1) for index in question.right)
        print(_filled(f"{'Right.' if is_right else f'Wrong: the answer is {known}.'} {question.why}"))
    return right


def _read_answer(question: Question) -> list[int]:
    while True:
        several = len(question.right) > 1
        print("answers, by commas: " if several else "answer: ", end="", flush=True)
        line = sys.stdin.readline()
        if not line:
            raise UsageError(f"no answer to {question.id}: the input has ended\ntype a number for each question")
        try:
            return parse_answer(line, question)
        except LabError as error:
            print(error)


def _filled(text: str) -> str:
    return textwrap.fill(" ".join(text.split()), _WIDTH, subsequent_indent="     ")
