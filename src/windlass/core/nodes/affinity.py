"""Node affinity: matching of a node's labels against a job's terms. Source: Kubernetes, nodeaffinity."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType

from windlass.core.model.job import Match

Labels = Mapping[str, str]


def matches_terms(labels: Labels, terms: Sequence[Sequence[Match]]) -> bool:
    """Tells whether any term matches with all its conditions. An empty term matches no node, as in Kubernetes."""
    return any(term and all(_OPERATORS[match.operator](labels, match) for match in term) for term in terms)


def format_terms(terms: Sequence[Sequence[Match]]) -> str:
    """Formats the terms: "zone in (a, b) and disk exists or gen > 3"."""
    return " or ".join(" and ".join(map(_format_match, term)) for term in terms)


def affinity_fault(terms: Sequence[Sequence[Match]]) -> str:
    """Returns the fault of an invalid affinity and its fix, or ""."""
    for match in (match for term in terms for match in term):
        if match.operator not in _OPERATORS:
            return f"{match.operator} is no operator of an affinity; there are {', '.join(_OPERATORS)}"
        if match.operator in ("In", "NotIn") and not match.values:
            return f"the affinity's {match.key} {match.operator} names no values; name one at least"
        if match.operator in ("Gt", "Lt") and (len(match.values) != 1 or number_in(match.values[0]) is None):
            return f"the affinity's {match.key} {match.operator} needs one whole number"
        if match.operator in ("Exists", "DoesNotExist") and match.values:
            return f"the affinity's {match.key} {match.operator} takes no values; leave them out"
    return ""


def number_in(text: str | None) -> int | None:
    """Returns the whole number of up to 18 digits that a text is; None if it is none."""
    plain = text or ""
    digits = plain.removeprefix("-")
    return int(plain) if digits.isascii() and digits.isdigit() and len(digits) < 19 else None


def _numbers_of(labels: Labels, match: Match) -> tuple[int, int] | None:
    """Returns the label's number and the number to compare with; None if either is no number."""
    mine, other = number_in(labels.get(match.key)), number_in(match.values[0])
    return None if mine is None or other is None else (mine, other)


def _greater(labels: Labels, match: Match) -> bool:
    pair = _numbers_of(labels, match)
    return pair is not None and pair[0] > pair[1]


def _is_less(labels: Labels, match: Match) -> bool:
    pair = _numbers_of(labels, match)
    return pair is not None and pair[0] < pair[1]


_OPERATORS: Mapping[str, Callable[[Labels, Match], bool]] = MappingProxyType(
    {
        "In": lambda labels, match: labels.get(match.key) in match.values,
        "NotIn": lambda labels, match: labels.get(match.key) not in match.values,
        "Exists": lambda labels, match: match.key in labels,
        "DoesNotExist": lambda labels, match: match.key not in labels,
        "Gt": _greater,
        "Lt": _is_less,
    }
)
_WORDS = {"NotIn": "not in", "In": "in", "Exists": "exists", "DoesNotExist": "is not there", "Gt": ">", "Lt": "<"}


def _format_match(match: Match) -> str:
    values = f"({', '.join(match.values)})" if match.operator in ("In", "NotIn") else " ".join(match.values)
    return " ".join(part for part in (match.key, _WORDS.get(match.operator, match.operator), values) if part)
