"""Writes a diagnosis as text for a terminal, as plain data for JSON, or as Markdown."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict
from typing import Any, NamedTuple, TypeAlias

from windlass.diagnose.diagnosis import Advice, Diagnosis, EvidenceLine, RootCause

Paint: TypeAlias = Callable[[str, str], str]
"""Text and the name of a style → the text as it is printed."""

_ADVICE = {
    Advice.RETRY: "start it again: another start may succeed",
    Advice.AVOID_NODE: "start it again on other nodes than this one",
    Advice.STOP: "do not start it again before the fix: it fails in the same way",
}
_NOTHING = "No line points to a failure."
_CONTROLS = re.compile(r"[\x00-\x08\x0a-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")


class PresentState(NamedTuple):
    """A job that has not failed, as it is at present."""

    headline: str
    sections: Mapping[str, Sequence[str]]
    """Lines by their titles."""
    was_read: bool = True
    """Whether its logs were searched for a cause."""


def without_colours(text: str, _style: str) -> str:
    """The text as it is: the paint of files and pipes."""
    return text


def text_report(diagnosis: Diagnosis, paint: Paint = without_colours, present: PresentState | None = None) -> str:
    """The report as lines. `paint` adds colours: styles are `verdict`, `label` and `quiet`.

    `present`: of a job that has not failed, which then begins the report unless there is a verdict.
    """
    verdict = diagnosis.verdict
    lines = _present_lines(present, paint) if verdict is None else _verdict_lines(verdict, paint)
    lines += _titled("job", [present.headline], paint) if present and verdict else []
    lines += [line for title, texts in _sections(present) for line in _titled(title, texts, paint)]
    lines += _titled("note", diagnosis.notes, paint)
    lines += _titled("not seen", diagnosis.unseen, paint)
    return "\n".join(lines)


def plain_data(diagnosis: Diagnosis) -> dict[str, Any]:
    """The report as plain data, for JSON."""
    return asdict(diagnosis)


def markdown_report(diagnosis: Diagnosis, present: PresentState | None = None) -> str:
    """The report for an issue or a chat: the verdict, a table, and the evidence as quoted text."""
    verdict = diagnosis.verdict
    about = [line for title, texts in _sections(present) for line in _list(title.capitalize(), texts)]
    if verdict is None:
        first, *rest = _present_lines(present, without_colours)
        gaps = [*_list("Note", diagnosis.notes), *_list("Not seen", diagnosis.unseen)]
        return "\n".join([f"**{_cell(first)}**", *(f"\n{_cell(line)}" for line in rest), *about, *gaps])
    rows = [(name, _cell(text)) for name, text in _fields(verdict)]
    fence = "`" * max(3, 1 + max((_longest_fence(line.text) for line in verdict.evidence), default=0))
    return "\n".join(
        [
            f"**{_cell(verdict.text)}**",
            "",
            "| | |",
            "|---|---|",
            *(f"| {name} | {text} |" for name, text in rows),
            "",
            f"{fence}text",
            *map(_evidence_line, verdict.evidence),
            fence,
            *_list("Other causes", _alternatives(verdict)),
            *(_list("Job", [present.headline]) if present else []),
            *about,
            *_list("Not seen", diagnosis.unseen),
        ]
    )


def printable(text: str) -> str:
    """The text with codes in place of control characters, which could change what a terminal shows."""
    return _CONTROLS.sub(lambda found: f"\\x{ord(found[0]):02x}", text)


def _present_lines(present: PresentState | None, paint: Paint) -> list[str]:
    """The first lines of a report without a verdict."""
    if present is None:
        return [_NOTHING]
    return [paint(printable(present.headline), "label"), *([_NOTHING] if present.was_read else [])]


def _sections(present: PresentState | None) -> Iterable[tuple[str, Sequence[str]]]:
    return () if present is None else present.sections.items()


def _verdict_lines(verdict: RootCause, paint: Paint) -> list[str]:
    fields = _fields(verdict)
    width = max(len(name) for name, _ in fields)
    lines = [
        paint(printable(verdict.text), "verdict"),
        *_titled("evidence", map(_evidence_line, verdict.evidence), paint),
    ]
    lines += [f"{paint(f'{name:<{width}}', 'label')}  {printable(text)}" for name, text in fields]
    return [*lines, *_titled("other causes", _alternatives(verdict), paint)]


def _fields(verdict: RootCause) -> list[tuple[str, str]]:
    """Names and texts of the parts that this verdict has."""
    where = [f"rank {verdict.rank}" * (verdict.rank is not None), f"node {verdict.node}" * bool(verdict.node)]
    parts = {
        "cause": f"{verdict.cause} (rule {verdict.rule})",
        "certainty": verdict.certainty.value,
        "scope": verdict.scope.value,
        "where": ", ".join(filter(None, where)),
        "why": verdict.why,
        "fix": verdict.fix,
        "next command": verdict.command,
        "to be sure": verdict.decide,
        "advice": _ADVICE[verdict.advice],
    }
    return [(name, text) for name, text in parts.items() if text]


def _alternatives(verdict: RootCause) -> list[str]:
    return [f"{other.text} ({other.cause}) To decide: {other.decide}" for other in verdict.alternatives]


def _evidence_line(line: EvidenceLine) -> str:
    place = f"{line.source}:{line.line}" if line.line else line.source
    return printable(f"{place}: {line.text}")


def _titled(title: str, lines: Iterable[str], paint: Paint) -> list[str]:
    shown = [f"  {paint(printable(line), 'quiet')}" for line in lines]
    return [paint(title, "label"), *shown] if shown else []


def _list(title: str, lines: Sequence[str]) -> list[str]:
    return ["", f"{title}:", "", *(f"- {_cell(line)}" for line in lines)] if lines else []


def _cell(text: str) -> str:
    return printable(" ".join(text.split())).replace("|", "\\|")


def _longest_fence(text: str) -> int:
    return max(map(len, re.findall("`+", text)), default=0)
