"""The fix that the message of a reader of jobs names, as a sentence of its own."""

from __future__ import annotations

import re
from collections.abc import Sequence

_MEANT = re.compile(r"did you mean '([^']+)'\?")
_MISSING = re.compile(r"^has no (\w+)")
_EXPECTED = re.compile(r"\b(?:expects|must be) (.+?)(?:, not .+|: .+)?$", re.DOTALL)
_IMPERATIVE = re.compile(
    r"; (?:for \w+ jobs )?"
    r"((?:add|ask|begin|call|change|give|hand|keep|label|leave|put|remove|rename|shorten|take|write)\b.+)$"
)


def fix_of(message: str, choices: Sequence[str] = ()) -> str:
    """The fix in a message such as "expects a list, not 'a'": "Write a list."; "" if the message names none.

    `choices`: the words of which one is expected.
    """
    if choices:
        return f"Write {listed(choices)}."
    if found := _MEANT.search(message):
        return f"Write {found[1]}."
    if found := _IMPERATIVE.search(message):
        return f"{found[1][0].upper()}{found[1][1:]}."
    if found := _EXPECTED.search(message.partition("; ")[0]):
        return f"Write {found[1]}."
    if found := _MISSING.search(message):
        return f"Add a {found[1]}."
    return ""


def listed(words: Sequence[str]) -> str:
    """Words as a list of alternatives: "A, B or C"."""
    *others, last = words
    return f"{', '.join(others)} or {last}" if others else last
