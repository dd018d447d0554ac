"""The tables of the guide for users of Kubeflow, made from the cases and from the intended differences."""

from __future__ import annotations

from collections.abc import Iterator

from kubeflow_clients.commands import COMMANDS

from .cases import cases
from .conditions import conditions
from .differences import INTENDED, Intended, is_open
from .fields import WITHOUT_CASE, Field, fields
from .kinds import KINDS, VARIATIONS, Kind

BEGIN, END = "<!-- tables -->", "<!-- end of the tables -->"
EQUAL, BETTER, DIFFERENT, OPEN, NONE = "equal", "better", "different", "open", "–"
PLAIN = "labels"
"""A case in which nothing happens to the pods."""


def tables() -> str:
    """The tables in Markdown: kinds, cases, fields, conditions, commands, intended differences."""
    titles = tuple(_title(kind) for kind in KINDS)
    parts = [
        ("## Kinds", ("kind", "cases", "equal", "open"), _kinds()),
        ("## Cases", ("case", *titles), _cases()),
        ("## Fields", ("field", *titles, "cases or reason"), _fields()),
        ("## Conditions", ("condition", "verdict", "reason"), conditions()),
        ("## Commands", ("command", "verdict", "remark"), _commands()),
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


def _fields() -> Iterator[tuple[str, ...]]:
    for each in fields():
        rows = dict.fromkeys(row.what for kind in KINDS for row in _rows(each, kind))
        names = dict.fromkeys(f"`{name}`" for found in each.cases.values() for name in found)
        reason = WITHOUT_CASE[each.name][1] if each.name in WITHOUT_CASE else ", ".join(names)
        yield f"`{each.name}`", *(field_verdict(each, kind) for kind in KINDS), "; ".join([reason, *rows])


def field_verdict(field: Field, kind: Kind) -> str:
    """The verdict that is worst for a user of the field, of the cases that use it; open if nothing is known of it."""
    if kind not in field.kinds:
        return NONE
    names = field.cases.get(kind.label, ())
    if not names:
        return WITHOUT_CASE[field.name][0] if field.name in WITHOUT_CASE else OPEN
    if any(is_open(kind.label, name) for name in names):
        return OPEN
    found = {row.verdict for row in _rows(field, kind)}
    return next((each for each in (DIFFERENT, BETTER) if each in found), EQUAL)


def _rows(field: Field, kind: Kind) -> Iterator[Intended]:
    """The intended differences of the cases that use a field."""
    for row in INTENDED:
        cases_of_kind = (f"{kind.label}-{name}" for name in field.cases.get(kind.label, ()))
        if any(row.is_about(case, f"{kind.label}-{PLAIN}") for case in cases_of_kind):
            yield row


def _commands() -> Iterator[tuple[str, ...]]:
    yield from ((f"`{each.title}`", each.verdict, each.reason) for each in COMMANDS)


def _differences() -> Iterator[tuple[str, ...]]:
    yield from ((each.what, each.verdict, each.reason) for each in INTENDED)


def _table(head: tuple[str, ...], rows: Iterator[tuple[str, ...]]) -> str:
    return "\n".join(f"| {' | '.join(row)} |" for row in (head, ("---",) * len(head), *rows))
