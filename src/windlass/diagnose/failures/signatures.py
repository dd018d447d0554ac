"""All signatures of the rules, compiled into automata that match them in one pass and in linear time."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import re2

from windlass.diagnose.failures.failure_rules import FailureRule, RuleRole, load_rules

_AUTOMATON_BYTES = 1 << 27
"""Limit of RE2's states. RE2 drops states and builds them again above it."""


@dataclass(frozen=True, slots=True)
class SignatureMatch:
    """One signature that matches a line."""

    rule: str
    signature: int
    values: Mapping[str, str]
    """Text of each named group that took part in the match."""


class SignatureSet:
    """Signatures of some rules. Safe to use in several threads."""

    def __init__(self, rules: Iterable[FailureRule]) -> None:
        self._patterns = [(rule.id, number, text) for rule in rules for number, text in enumerate(rule.signatures)]
        self._set = re2.Set.SearchSet(_options())
        for _, _, text in self._patterns:
            self._set.Add(b"(?m)" + text.encode())
        self._set.Compile()

    def fires(self, text: bytes) -> bool:
        """Whether any signature matches. The text may have many lines."""
        return bool(self._set.Match(text))

    def hits(self, line: bytes) -> list[SignatureMatch]:
        """The signatures that match one line, with the values of their groups."""
        found: Sequence[int] = self._set.Match(line) or ()
        text = line.decode("utf-8", "replace") if found else ""
        return [
            SignatureMatch(rule, number, _values(pattern, text))
            for rule, number, pattern in map(self._pattern, sorted(found))
        ]

    def _pattern(self, index: int) -> tuple[str, int, str]:
        return self._patterns[index]


@cache
def every_signature() -> SignatureSet:
    """Signatures of all rules."""
    return SignatureSet(load_rules().values())


@cache
def failure_signatures() -> SignatureSet:
    """Signatures of roots and consequences: lines that a healthy run does not print."""
    return SignatureSet(rule for rule in load_rules().values() if rule.role is not RuleRole.HINT)


def _options() -> Any:
    options = re2.Options()
    options.max_mem = _AUTOMATON_BYTES
    options.never_capture = True
    options.log_errors = False
    options.encoding = re2.Options.Encoding.LATIN1  # bytes of any encoding; all signatures are ASCII
    return options


@cache
def _compiled(pattern: str) -> Any:
    return re2.compile(pattern)


def _values(pattern: str, text: str) -> dict[str, str]:
    match = _compiled(pattern).search(text)
    return {name: value for name, value in match.groupdict().items() if value} if match else {}
