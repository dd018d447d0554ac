"""Diagram and table of the lifecycle for the documentation, generated from the transition table."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

from windlass.core.lifecycle.state_machine import TABLE, Row
from windlass.core.model.status import TERMINAL, Phase


def render_page() -> str:
    """The page docs/reference/states.md."""
    head = (
        "For users who read the state of a job, and for developers: each state, the events with an effect in it, and\n"
        "the states that follow. Generated from the transition table in `core/lifecycle/state_machine.py` by\n"
        "`windlass.core.lifecycle.diagram.render_page()`."
    )
    note = "An event that is not listed for a state changes nothing there."
    return f"# States of a job\n\n{head}\n\n```mermaid\n{render_mermaid()}```\n\n{note}\n\n{render_table()}"


def render_mermaid(table: Sequence[Row] = TABLE) -> str:
    """A Mermaid state diagram: one arrow per pair of phases, labelled with the events that lead there."""
    labels: dict[tuple[Phase, Phase], list[str]] = defaultdict(list)
    for row in table:
        for source in row.sources:
            for target in row.targets:
                if source is not target:
                    labels[source, target].append(row.on.__name__)
    arrows = [f"    {a} --> {b}: {', '.join(dict.fromkeys(on))}" for (a, b), on in labels.items()]
    ends = [f"    {phase} --> [*]" for phase in Phase if phase in TERMINAL]
    return "\n".join(["stateDiagram-v2", f"    [*] --> {Phase.CREATED}", *arrows, *ends]) + "\n"


def render_table(table: Sequence[Row] = TABLE) -> str:
    """The table as Markdown: phase, event, target phases, first line of the handler's docstring."""
    rows = [
        f"| {source} | {row.on.__name__} | {', '.join(row.targets)} | {_first_line(row)} |"
        for source in Phase
        for row in table
        if source in row.sources
    ]
    return "\n".join(["| in | on | leads to | meaning |", "|---|---|---|---|", *rows]) + "\n"


def _first_line(row: Row) -> str:
    return (row.handler.__doc__ or "").strip().splitlines()[0]
