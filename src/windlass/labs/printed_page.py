"""All labs as one page of Markdown to print: the paths of one and two days, each lab's text, the cards."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from itertools import accumulate

from windlass.labs.lab_description import DAYS, LabDescription

_HEAD = """# All labs of the workshop

For readers on paper and for people who teach the workshop: the labs with their steps, and the concept cards.
`windlass lab start LAB` prints the same text and makes the files of a lab. Minutes are planned times.
[The instructor's guide](workshop-instructor.md) says what to prepare."""
_PATHS = {1: "one day", 2: "two days"}


def labs_page(labs: Sequence[LabDescription], cards: Sequence[str]) -> str:
    """Returns the page of these labs and of the cards' texts."""
    parts = [
        _HEAD,
        *(path_section(labs, days) for days in DAYS),
        *(lab_section(lab) for lab in labs),
        "## Concept cards",
        *(demote_headings(card, 2) for card in cards),
    ]
    return "\n\n".join(part.strip() for part in parts) + "\n"


def path_section(labs: Sequence[LabDescription], days: int) -> str:
    """Returns the table of the labs of a path, with a line for the end of each day."""
    chosen = [lab for lab in labs if days in lab.facts.days]
    lines = ["| day | lab | title | minutes | needs |", "|---|---|---|---|---|"]
    for day, lab in zip(days_of(chosen, days), chosen, strict=True):
        facts = lab.facts
        lines.append(f"| {day} | {facts.id} | {facts.title} | {facts.minutes} | {', '.join(facts.needs) or 'Python'} |")
    total = sum(lab.facts.minutes for lab in chosen)
    return f"## The path of {_PATHS[days]}\n\nLabs of {total} minutes, without quizzes and pauses.\n\n" + "\n".join(
        lines
    )


def days_of(labs: Sequence[LabDescription], days: int) -> list[int]:
    """Returns the day of each lab: days of about equal length, in the order of the labs."""
    ends = list(accumulate(lab.facts.minutes for lab in labs))
    starts = [end - lab.facts.minutes for end, lab in zip(ends, labs, strict=True)]
    return [1 + (start + end) * days // (2 * ends[-1] + 1) for start, end in zip(starts, ends, strict=True)]


def lab_section(lab: LabDescription) -> str:
    """Returns the text of a lab below its facts."""
    facts = lab.facts
    text = demote_headings(lab.text, 1)
    title, _, steps = text.partition("\n")
    needs, cards = (", ".join(names) or "none" for names in (facts.needs, facts.cards))
    summary = f"Lab `{facts.id}`: {facts.minutes} minutes. Needs besides Python: {needs}. Cards: {cards}."
    with_gpu = f"\n\n**Where GPUs are real**: {facts.gpu.strip()}" if facts.gpu else ""
    return f"{title}\n\n{summary}{with_gpu}\n\n{steps.strip()}"


def demote_headings(text: str, levels: int) -> str:
    """Returns Markdown with each heading some levels deeper; lines within fenced blocks stay."""
    return "\n".join(_demoted_lines(text, levels))


def _demoted_lines(text: str, levels: int) -> Iterator[str]:
    fence = ""
    for line in text.splitlines():
        mark = re.match(r"\s*(`{3,}|~{3,})", line)
        if not fence and re.match(r"#+ ", line):
            yield "#" * levels + line
            continue
        yield line
        if mark and not fence:
            fence = mark[1]
        elif mark and mark[1].startswith(fence) and line.strip() == mark[1]:
            fence = ""
