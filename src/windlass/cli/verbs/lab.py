"""`windlass lab`: the workshop, whose labs check themselves."""

from __future__ import annotations

import os
import sys
import time
from dataclasses import replace
from enum import StrEnum
from typing import Annotated

import typer

from windlass.cli.errors import UsageError
from windlass.cli.exit_codes import ExitCode
from windlass.cli.lab_completion import complete_cards, complete_labs, complete_quizzes
from windlass.cli.lab_results import LABS, check_json, check_lines, lab_row
from windlass.cli.quiz_dialogue import ask_questions
from windlass.cli.target import uses_color
from windlass.cli.target_options import NoColorOption
from windlass.cli.terminal.formatting import pluralize
from windlass.cli.terminal.markdown_text import print_markdown
from windlass.cli.terminal.output import Format, FormatOption, as_json, show
from windlass.cli.verb_group import verb_group
from windlass.cli.verbs.lab_cluster import cluster
from windlass.labs.check_result import check_lab
from windlass.labs.concept_cards import card_titles, read_card
from windlass.labs.lab_catalog import all_labs, find_lab
from windlass.labs.lab_description import LabDescription
from windlass.labs.lab_environment import LAB_VARIABLE
from windlass.labs.lab_folders import lab_folders
from windlass.labs.lab_hints import read_hints
from windlass.labs.lab_reset import reset_lab
from windlass.labs.lab_solution import solution_text
from windlass.labs.lab_start import start_lab
from windlass.labs.progress import QuizScore, change_lab, keep_score, read_progress
from windlass.labs.quiz import PARTS, read_quiz

lab = verb_group("The workshop: labs that run here and check themselves, hints, quizzes and concept cards.")
lab.add_typer(cluster, name="cluster")
LabArgument = Annotated[
    str,
    typer.Argument(
        metavar="[LAB]",
        help="The lab, such as c1. Default: the one whose env this shell has read.",
        autocompletion=complete_labs,
        show_default=False,
    ),
]


class _Form(StrEnum):
    TEXT = "text"
    JSON = "json"


class _Part(StrEnum):
    BEFORE = "before"
    AFTER = "after"


@lab.command("list", short_help="List the labs with their progress")
def list_labs(output: FormatOption = Format.TABLE, no_color: NoColorOption = False) -> int:
    """List all labs in the order of the workshop, with progress, minutes and needs. -o wide adds days and cards."""
    folders = lab_folders()
    progress = read_progress(folders.progress, _report)
    rows = [lab_row(each, folders, progress) for each in all_labs()]
    show(LABS, rows, output, paint=uses_color(no_color=no_color))
    return ExitCode.OK


@lab.command("start", short_help="Start a lab, or continue it, and print its text")
def start(
    lab_id: LabArgument = "",
    fresh: Annotated[bool, typer.Option("--fresh", help="Reset the lab first: files and jobs are removed.")] = False,
    no_color: NoColorOption = False,
) -> int:
    """Make the folder of a lab with its files, its environment and its broken state, and print its text.

    A lab that was started before continues: files stay, and missing ones are restored.
    """
    chosen, folders = _chosen(lab_id), lab_folders()
    started = start_lab(chosen, folders, _report, fresh=fresh)
    now = _now()
    change_lab(
        folders.progress, chosen.facts.id, lambda record: replace(record, started_at=record.started_at or now), _report
    )
    print_markdown(chosen.text, paint=uses_color(no_color=no_color))
    if started.was_started:
        restored = f"; restored: {', '.join(started.restored)}" if started.restored else ""
        _report(f"{chosen.facts.id} was started before: your files stay{restored} (--fresh begins anew)")
    _report(f"cd {started.folder} && . ./env")
    return ExitCode.OK


@lab.command("check", short_help="Check what you did; exits with 1 if something is missing")
def check(
    lab_id: LabArgument = "",
    output: Annotated[_Form, typer.Option("-o", "--output", help="Output format.")] = _Form.TEXT,
    no_color: NoColorOption = False,
) -> int:
    """Look at jobs, files, checkpoints, processes and the cluster, and say what is missing and what to try next.

    Exits with 0 if the lab is accepted, with 1 if it is not, with 5 if it was not started.
    """
    chosen, folders = _chosen(lab_id), lab_folders()
    result = check_lab(chosen, folders)
    now = _now() if result.accepted else None
    change_lab(
        folders.progress,
        chosen.facts.id,
        lambda record: replace(record, checks=record.checks + 1, accepted_at=record.accepted_at or now),
        _report,
    )
    if output is _Form.JSON:
        print(as_json(check_json(chosen, result)))
        return ExitCode.OK if result.accepted else ExitCode.FAILED
    paint = uses_color(no_color=no_color)
    for line, style in check_lines(result):
        print(typer.style(line, fg=style) if paint and style else line)
    print(f"{chosen.facts.id} is accepted" if result.accepted else f"{chosen.facts.id} is not accepted yet")
    return ExitCode.OK if result.accepted else ExitCode.FAILED


@lab.command("hint", short_help="Print the next hint")
def hint(
    lab_id: LabArgument = "",
    number: Annotated[
        int | None, typer.Option("--number", min=1, help="Print this hint again, from 1.", show_default=False)
    ] = None,
    no_color: NoColorOption = False,
) -> int:
    """Print the next hint of a lab, each nearer to the answer than the one before."""
    chosen, folders = _chosen(lab_id), lab_folders()
    hints, seen = read_hints(chosen), read_progress(folders.progress, _report).of(chosen.facts.id).hints
    wanted = number or min(seen + 1, len(hints))
    if wanted > len(hints):
        raise UsageError(f"{chosen.facts.id} has {pluralize(len(hints), 'hint')}\nuse --number 1 to {len(hints)}")
    change_lab(
        folders.progress, chosen.facts.id, lambda record: replace(record, hints=max(record.hints, wanted)), _report
    )
    print_markdown(hints[wanted - 1], paint=uses_color(no_color=no_color))
    following = "windlass lab hint" if wanted < len(hints) else f"the last one; windlass lab solution {chosen.facts.id}"
    _report(f"hint {wanted} of {len(hints)}; next: {following}")
    return ExitCode.OK


@lab.command("solution", short_help="Print the solution")
def solution(lab_id: LabArgument = "", no_color: NoColorOption = False) -> int:
    """Print the commands of a lab's solution, and how its files differ from those of the start."""
    chosen, folders = _chosen(lab_id), lab_folders()
    change_lab(folders.progress, chosen.facts.id, lambda record: replace(record, solution_shown=True), _report)
    print_markdown(solution_text(chosen), paint=uses_color(no_color=no_color))
    return ExitCode.OK


@lab.command("reset", short_help="Stop everything of a lab and remove its files")
def reset(lab_id: LabArgument = "") -> int:
    """End the processes and jobs of a lab, and remove its folder and its namespace. Nothing else is touched."""
    chosen, folders = _chosen(lab_id), lab_folders()
    if not folders.own(chosen.facts.id).is_dir():
        print(f"{chosen.facts.id} is not started: nothing to reset")
        return ExitCode.OK
    ended = reset_lab(chosen, folders, _report)
    print(f"{chosen.facts.id} is reset: {pluralize(ended, 'process', 'processes')} ended, its folder removed")
    return ExitCode.OK


@lab.command("quiz", short_help="Ask the questions of a module")
def quiz(
    module: Annotated[str, typer.Argument(help="The letter of a module.", autocompletion=complete_quizzes)],
    when: Annotated[
        _Part | None,
        typer.Option("--when", help="Before or after the labs. Default: before, then after.", show_default=False),
    ] = None,
) -> int:
    """Ask the questions of a module, before or after its labs, explain each answer, and keep the score."""
    asked, folders = read_quiz(module), lab_folders()
    letter, scores = asked.module.lower(), read_progress(folders.progress, _report).quizzes
    part = when or next((_Part(each) for each in PARTS if f"{letter}-{each}" not in scores), _Part.AFTER)
    questions = asked.part(part)
    if not questions:
        raise UsageError(f"the quiz {letter} has no questions {part} its labs\nuse the other --when")
    print(f"{asked.title}: {pluralize(len(questions), 'question')} {part} the labs")
    right = ask_questions(questions)
    keep_score(folders.progress, f"{letter}-{part}", QuizScore(right, len(questions), _now()), _report)
    print(f"\n{right} of {len(questions)} right")
    return ExitCode.OK


@lab.command("card", short_help="Print a concept card; without a name, list them")
def card(
    name: Annotated[
        str,
        typer.Argument(metavar="[CARD]", help="The name of a card.", autocompletion=complete_cards, show_default=False),
    ] = "",
    no_color: NoColorOption = False,
) -> int:
    """Print a concept card: one idea on a page. Without a name, list all cards."""
    if name:
        print_markdown(read_card(name), paint=uses_color(no_color=no_color))
        return ExitCode.OK
    titles = card_titles()
    width = max(map(len, titles), default=0)
    for each, title in titles.items():
        print(f"{each:<{width}}  {title}")
    return ExitCode.OK


def _chosen(lab_id: str) -> LabDescription:
    """Returns the lab by its id, else the one of this shell's environment. Raises UsageError without either."""
    wanted = lab_id or os.environ.get(LAB_VARIABLE, "")
    if not wanted:
        raise UsageError("name a lab\nwindlass lab list shows all labs")
    return find_lab(wanted)


def _report(text: str) -> None:
    print(text, file=sys.stderr)


def _now() -> int:
    return int(time.time() * 1000)
