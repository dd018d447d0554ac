"""The tables of the guide for users of Kubeflow, made from the cases and from the intended differences."""

from __future__ import annotations

from collections.abc import Iterator

from .cases import cases
from .differences import INTENDED, is_open
from .kinds import KINDS, VARIATIONS, Kind

BEGIN, END = "<!-- tables -->", "<!-- end of the tables -->"
EQUAL, OPEN, NONE = "equal", "open", "–"


def tables() -> str:
    """The three tables in Markdown: kinds, cases, intended differences."""
    parts = [
        ("## Kinds", ("kind", "cases", "equal", "open"), _kinds()),
        ("## Cases", ("case", *(_title(kind) for kind in KINDS)), _cases()),
        ("## Intended differences", ("subject", "verdict", "reason"), _differences()),
    ]
    return "\n\n".join(f"{title}\n\n{_table(head, rows)}" for title, head, rows in parts)


def page(text: str) -> str:
    """The text of the guide with its tables replaced."""
    head, _, rest = text.partition(BEGIN)
    return f"{head}{BEGIN}\n\n{tables()}\n\n{END}{rest.partition(END)[2]}"


def _title(kind: Kind) -> str:
    return f"{kind.name} {kind.version.rpartition('/')[2]}"


def _kinds() -> Iterator[tuple[str, ...]]:
    for kind in KINDS:
        names = [each.name for each in cases((kind,))]
        still_open = sum(is_open(kind.label, name) for name in names)
        yield _title(kind), str(len(names)), str(len(names) - still_open), str(still_open)


def _cases() -> Iterator[tuple[str, ...]]:
    for name, (_, applies) in VARIATIONS.items():
        verdicts = ((OPEN if is_open(kind.label, name) else EQUAL) if applies(kind) else NONE for kind in KINDS)
        yield f"`{name}`", *verdicts


def _differences() -> Iterator[tuple[str, ...]]:
    yield from ((each.what, each.verdict, each.reason) for each in INTENDED)


def _table(head: tuple[str, ...], rows: Iterator[tuple[str, ...]]) -> str:
    return "\n".join(f"| {' | '.join(row)} |" for row in (head, ("---",) * len(head), *rows))
