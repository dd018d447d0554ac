"""Fills the texts of rules with the values of a case."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping

_PLACE = re.compile(r"{([\w|]+)}")
_SEGMENT = re.compile(r"\[([^\[\]{}]*{[^\[\]]*)\]")
_DETAIL = "detail"
"""Value that stands for the words that a signature captures, whatever the name of their group is."""
_UNKNOWN_DETAIL = re.compile(r"(?:: | \()?{detail}\)?")
_LONGEST_VALUE = 300
_UNKNOWN = "unknown"
_MAX_RANKS = 8


def describe_ranks(ranks: Collection[int]) -> str:
    """The numbers of ranks, the first eight of them."""
    first = ", ".join(str(rank) for rank in sorted(ranks)[:_MAX_RANKS])
    return first if len(ranks) <= _MAX_RANKS else f"{first} and {len(ranks) - _MAX_RANKS} more"


def fill_text(text: str, values: Mapping[str, str], rank: int | None, node: str | None) -> str:
    """The text with rank, node and values.

    `{a|b}` is the first known value of several. `[…]` is left out unless all its values are known, and so is
    `: {detail}`. `{detail}` is the first value that the text does not name, where no group has that name.
    """
    known = {name: shown for name, value in values.items() if (shown := _shown(value))}
    known |= {"rank": str(rank)} if rank is not None else {}
    known |= {"node": node} if node else {}
    named = {name for place in _PLACE.findall(text) for name in place.split("|")} | {"rank", "node"}
    captured = next((value for name, value in known.items() if name not in named), None)
    if captured and _DETAIL in named:
        known.setdefault(_DETAIL, captured)
    text = _without_unknown_place(_without_unknown_place(text, "rank", known), "node", known)
    text = _SEGMENT.sub(lambda found: found[1] if _has_values(found[1], known) else "", text)
    if _DETAIL not in known:
        text = _UNKNOWN_DETAIL.sub("", text)
    return _PLACE.sub(lambda found: _value(found[1], known) or _UNKNOWN, text)


def _shown(value: str) -> str:
    """The start of a value without the marks that separate it from the words around it."""
    return value.strip().removeprefix(": ").rstrip(" .:")[:_LONGEST_VALUE]


def _has_values(text: str, known: Mapping[str, str]) -> bool:
    return all(_value(place, known) for place in _PLACE.findall(text))


def _value(place: str, known: Mapping[str, str]) -> str:
    return next((known[name] for name in place.split("|") if name in known), "")


def _without_unknown_place(text: str, name: str, known: Mapping[str, str]) -> str:
    """The text with "a rank" for "rank {rank}" where the rank is not known; the same for nodes."""
    if name in known:
        return text
    text = re.sub(rf"(?<!\w){name.capitalize()} {{{name}}}", f"A {name}", text)
    return re.sub(rf"(?<!\w){name} {{{name}}}", f"a {name}", text).replace(f"{{{name}}}", _UNKNOWN)
