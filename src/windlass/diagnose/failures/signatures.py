"""All signatures of the rules, compiled into automata that match them in one pass and in linear time."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import re2

from windlass.diagnose.failures.failure_rules import FailureRule, load_rules

_AUTOMATON_BYTES = 1 << 27
"""Limit of RE2's states. RE2 drops states and builds them again above it."""
_START = re.compile(r"(?<![\\\[])\^")
"""Start of a line in a signature: alone, or as an alternative in a group."""
_AFTER_PREFIX = r"(?:^|[\]:>)|][ :|\t]{0,8}(?:- )?|[0-9Z][ :|\t]{1,8}(?:- )?)"
"""Start of a line, or the end of a prefix of a launcher or a log collector."""


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
        self._exact = _automaton(text for _, _, text in self._patterns)
        self._loose = _automaton(_loosen(text) for _, _, text in self._patterns)

    def may_match(self, text: bytes) -> bool:
        """Whether a signature may match one of the lines, or the message after the prefixes of one of them."""
        return bool(self._loose.Match(text))

    def matches(self, line: bytes) -> list[SignatureMatch]:
        """The signatures that match one line, with the values of their groups."""
        found: Sequence[int] = self._exact.Match(line) or ()
        text = line.decode("utf-8", "replace") if found else ""
        return [self._match(index, text) for index in sorted(found)]

    def _match(self, index: int, text: str) -> SignatureMatch:
        rule, number, pattern = self._patterns[index]
        return SignatureMatch(rule, number, _values(pattern, text))


@cache
def every_signature() -> SignatureSet:
    """Signatures of all rules."""
    return SignatureSet(load_rules().values())


def _loosen(signature: str) -> str:
    """Returns a signature that also matches behind the prefixes of a line."""
    return _START.sub(lambda _: _AFTER_PREFIX, signature)


def _automaton(patterns: Iterable[str]) -> Any:
    automaton = re2.Set.SearchSet(_options())
    for text in patterns:
        automaton.Add(b"(?m)" + text.encode())
    automaton.Compile()
    return automaton


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
