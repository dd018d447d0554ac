"""Steps of a check list: their states, their order in reports, and the report as data, text and Markdown."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any


class State(StrEnum):
    """Outcome of one step."""

    OK = "ok"
    ABSENT = "not there"
    """The thing does not exist here, and nothing that does exist needs it."""
    UNSEEN = "not visible"
    """The reading is not permitted or not possible from here; `fix` says from where it is."""
    WARNING = "warning"
    """Work runs, but slower or less safely than it could."""
    WRONG = "wrong"


@dataclass(frozen=True, slots=True)
class CheckStep:
    """One step of a check list.

    `name`: stable, with its area before the dot; `text`: what was found; `fix`: a command or action, for every step
    that is a warning or wrong; `source`: the document behind a rule that is not obvious;
    `share`: part of the whole that this step explains, from 0 to 1.
    """

    name: str
    state: State
    text: str
    fix: str = ""
    evidence: tuple[str, ...] = ()
    source: str = ""
    share: float | None = None

    @property
    def area(self) -> str:
        """Part of the name before the dot."""
        return self.name.partition(".")[0]


def ok(name: str, text: str) -> CheckStep:
    """Returns a step that found nothing wrong."""
    return CheckStep(name, State.OK, text)


def absent(name: str, text: str) -> CheckStep:
    """Returns a step whose subject does not exist here."""
    return CheckStep(name, State.ABSENT, text)


def unseen(name: str, text: str, fix: str = "") -> CheckStep:
    """Returns a step that could not be read."""
    return CheckStep(name, State.UNSEEN, text, fix)


def is_wrong(steps: Iterable[CheckStep]) -> bool:
    """Returns whether any step is wrong; warnings are not."""
    return any(step.state is State.WRONG for step in steps)


def count_states(steps: Iterable[CheckStep]) -> dict[str, int]:
    """Returns the number of steps in each state that occurs, the worst first."""
    counts = Counter(step.state for step in steps)
    return {state.value: counts[state] for state in reversed(State) if counts[state]}


def plain_report(subject: str, steps: Sequence[CheckStep]) -> dict[str, Any]:
    """Returns the report as plain data, for JSON."""
    return {
        "subject": subject,
        "verdict": worst(steps).value,
        "counts": count_states(steps),
        "steps": [_plain_step(step) for step in steps],
    }


def worst(steps: Iterable[CheckStep]) -> State:
    """Returns wrong or warning if any step is, else ok."""
    states = {step.state for step in steps}
    return next((state for state in (State.WRONG, State.WARNING) if state in states), State.OK)


def text_lines(subject: str, steps: Sequence[CheckStep]) -> list[str]:
    """Returns the report as lines: one or more for each step, then the counts."""
    width = max((len(step.name) for step in steps), default=0)
    state_width = max(len(state.value) for state in State)
    lines = []
    for step in steps:
        lines.append(f"{step.state.value:<{state_width}}  {step.name:<{width}}  {step.text}".rstrip())
        indent = " " * (state_width + width + 4)
        lines += [f"{indent}| {line}" for line in step.evidence]
        lines += [f"{indent}fix: {step.fix}"] if step.fix else []
        lines += [f"{indent}see: {step.source}"] if step.source else []
    return [*lines, _summary(subject, steps)]


def markdown_lines(subject: str, steps: Sequence[CheckStep]) -> list[str]:
    """Returns the report as Markdown: the counts, one table, and the evidence of the steps that have some."""
    rows = [f"| {s.state.value} | `{s.name}` | {_cell(s.text)} | {_cell(s.fix)} |" for s in steps]
    lines = [f"**{_summary(subject, steps)}**", "", "| state | step | found | fix |", "|---|---|---|---|", *rows]
    for step in steps:
        if step.evidence:
            lines += ["", f"`{step.name}`", "```text", *step.evidence, "```"]
    return lines


def _summary(subject: str, steps: Sequence[CheckStep]) -> str:
    return f"{subject}: " + ", ".join(f"{number} {state}" for state, number in count_states(steps).items())


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")


def _plain_step(step: CheckStep) -> dict[str, Any]:
    named = {"step": step.name, "area": step.area, "state": step.state.value, "text": step.text}
    shared = {} if step.share is None else {"share": round(step.share, 4)}
    return {**named, **shared, "fix": step.fix, "evidence": list(step.evidence), "source": step.source}
