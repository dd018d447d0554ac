"""Reads node label conditions on one line, as `kubectl -l` takes them: "zone in (a,b), gpu-type != T4, !spot"."""

from __future__ import annotations

import re

from windlass.core.model.job import Match
from windlass.jobs.syntax.names import LABEL, LABEL_VALUE

_SET = rf"{LABEL} +(in|notin) *\( *{LABEL_VALUE}( *, *{LABEL_VALUE})* *\)"
_COMPARED = rf"{LABEL} *((==|!=|=) *{LABEL_VALUE}|[<>] *[0-9]{{1,18}})"
_CONDITION = rf"({_SET}|{_COMPARED}|! *{LABEL}|{LABEL})"
TERM_PATTERN = rf"^ *{_CONDITION}( *, *{_CONDITION})* *$"

_SIGNS = {"=": "In", "==": "In", "!=": "NotIn", ">": "Gt", "<": "Lt", "in": "In", "notin": "NotIn"}
_WORDS = {"In": "in", "NotIn": "notin"}
_EXAMPLE = "zone in (a,b), gpu-type != T4, !spot"


def parse_term(text: str) -> tuple[Match, ...]:
    """The conditions of one term. Raises ValueError."""
    if len(text) > 4_000 or not re.fullmatch(TERM_PATTERN[1:-1], text):
        raise ValueError(f"expects conditions such as {_EXAMPLE!r}, not {text[:40]!r}")
    return tuple(_condition(part.strip()) for part in re.split(r",(?![^(]*\))", text))


def _condition(text: str) -> Match:
    if text.startswith("!"):
        return Match(text[1:].strip(), "DoesNotExist")
    found = re.fullmatch(r"(\S+?) *(?:(==|!=|=|>|<) *(\S+)| (in|notin) *\((.*)\))", text)
    if found is None:
        return Match(text, "Exists")
    key, sign, value, word, values = found.groups()
    names = [value] if sign else [name.strip() for name in values.split(",")]
    return Match(key, _SIGNS[sign or word], tuple(names))


def format_term(term: tuple[Match, ...]) -> str:
    """The inverse of `parse_term`."""
    return ", ".join(map(_written, term))


def _written(match: Match) -> str:
    values = match.values
    match match.operator:
        case "Exists":
            return match.key
        case "DoesNotExist":
            return f"!{match.key}"
        case "Gt":
            return f"{match.key}>{values[0]}"
        case "Lt":
            return f"{match.key}<{values[0]}"
    if len(values) == 1:
        return f"{match.key}{'=' if match.operator == 'In' else '!='}{values[0]}"
    return f"{match.key} {_WORDS[match.operator]} ({','.join(values)})"
