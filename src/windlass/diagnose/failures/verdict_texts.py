"""Fills the texts of rules with the values of a case."""

from __future__ import annotations

import re
from collections.abc import Mapping

_PLACE = re.compile(r"{(\w+)}")
_LONGEST_VALUE = 300
_UNKNOWN = "unknown"


def fill_text(text: str, values: Mapping[str, str], rank: int | None, node: str | None) -> str:
    """The text with rank, node and values. A part whose value is not known is left out, or called unknown."""
    known = {name: value.strip()[:_LONGEST_VALUE] for name, value in values.items() if value.strip()}
    known |= {"rank": str(rank)} if rank is not None else {}
    known |= {"node": node} if node else {}
    text = _without_unknown_place(text, "rank", known)
    text = _without_unknown_place(text, "node", known)
    spare = [value for name, value in known.items() if name not in ("rank", "node") and f"{{{name}}}" not in text]
    for name in _PLACE.findall(text):
        if name not in known and spare:
            known[name] = spare.pop(0)
    text = re.sub(r"(?:: ?|, )?{(\w+)}$", lambda found: found[0] if found[1] in known else "", text)
    return _PLACE.sub(lambda found: known.get(found[1], _UNKNOWN), text)


def _without_unknown_place(text: str, name: str, known: Mapping[str, str]) -> str:
    """The text with "a rank" for "rank {rank}" where the rank is not known; the same for nodes."""
    if name in known:
        return text
    text = re.sub(rf"(?<!\w){name.capitalize()} {{{name}}}", f"A {name}", text)
    return re.sub(rf"(?<!\w){name} {{{name}}}", f"a {name}", text).replace(f"{{{name}}}", _UNKNOWN)
