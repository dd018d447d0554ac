"""The tables of the guide for users of Kubeflow, made from the cases and from the intended differences."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from kubeflow_clients.commands import COMMANDS

from .cases import cases
from .conditions import conditions
from .differences import INTENDED, Intended
from .fields import WITHOUT_CASE, Field, fields
from .kinds import KINDS, VARIATIONS, Kind

BEGIN, END = "<!-- tables -->", "<!-- end of the tables -->"
EQUAL, BETTER, DIFFERENT, NONE = "equal", "better", "different", "–"
PLAIN = "labels"
"""A case in which nothing happens to the pods."""


def tables() -> str:
    """The tables in Markdown: kinds, cases, fields, conditions, commands, intended differences."""
    titles = tuple(_title(kind) for kind in KINDS)
    parts = [
        ("## Kinds", ("kind", "cases", EQUAL, BETTER, DIFFERENT), _kinds()),
        ("## Cases", ("case", *titles, "differences"), _cases()),
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
        verdicts = [_verdict([each.name], kind) for each in cases((kind,))]
        yield _title(kind), str(len(verdicts)), *(str(verdicts.count(each)) for each in (EQUAL, BETTER, DIFFERENT))


def _cases() -> Iterator[tuple[str, ...]]:
    for name, (_, applies) in VARIATIONS.items():
        verdicts = (_verdict([name], kind) if applies(kind) else NONE for kind in KINDS)
        rows = dict.fromkeys(row.what for kind in KINDS if applies(kind) for row in _rows([name], kind))
        yield f"`{name}`", *verdicts, "; ".join(rows)


def _fields() -> Iterator[tuple[str, ...]]:
    for each in fields():
        rows = dict.fromkeys(row.what for kind in KINDS for row in _rows(each.cases.get(kind.label, ()), kind))
        names = dict.fromkeys(f"`{name}`" for found in each.cases.values() for name in found)
        reason = WITHOUT_CASE[each.name][1] if each.name in WITHOUT_CASE else ", ".join(names)
        yield f"`{each.name}`", *(field_verdict(each, kind) for kind in KINDS), "; ".join([reason, *rows])


def field_verdict(field: Field, kind: Kind) -> str:
    """The verdict of the cases that use a field, or the one that stands for them."""
    if kind not in field.kinds:
        return NONE
    names = field.cases.get(kind.label, ())
    return _verdict(names, kind) if names else WITHOUT_CASE[field.name][0]


def _verdict(names: Sequence[str], kind: Kind) -> str:
    """The verdict on cases of a kind that is worst for a user."""
    found = {row.verdict for row in _rows(names, kind)}
    return next((each for each in (DIFFERENT, BETTER) if each in found), EQUAL)


def _rows(names: Sequence[str], kind: Kind) -> Iterator[Intended]:
    """The intended differences of some cases of a kind, without those of every case."""
    for row in INTENDED:
        if any(row.is_about(f"{kind.label}-{name}", f"{kind.label}-{PLAIN}") for name in names):
            yield row


def _commands() -> Iterator[tuple[str, ...]]:
    yield from ((f"`{each.title}`", each.verdict, each.reason) for each in COMMANDS)


def _differences() -> Iterator[tuple[str, ...]]:
    yield from ((each.what, each.verdict, each.reason) for each in INTENDED)


def _table(head: tuple[str, ...], rows: Iterator[tuple[str, ...]]) -> str:
    return "\n".join(f"| {' | '.join(row)} |" for row in (head, ("---",) * len(head), *rows))
