"""Removal of other namespaces' jobs from answers. Their ids are replaced, so that counts stay right. Pure."""

from __future__ import annotations

import re
from collections.abc import Collection
from typing import Any

HIDDEN = "(another namespace)"
_TOKEN = re.compile(r"(?:apart/)?\b([a-z0-9](?:[-a-z0-9]*[a-z0-9])?)/[\w.:/-]*\w")
"""An id of a job: its namespace and the rest, such as `team/pytorchjob/digits`.

Also the exclusive resource of pods that keep apart from their own kind, `apart/team/app=web`.
"""


def named_namespaces(answer: Any, known: Collection[str]) -> set[str]:
    """The known namespaces that ids anywhere in an answer name."""
    match answer:
        case str():
            return {each for each in _TOKEN.findall(answer) if each in known}
        case dict():
            return {name for pair in answer.items() for each in pair for name in named_namespaces(each, known)}
        case list() | tuple():
            return {name for each in answer for name in named_namespaces(each, known)}
    return set()


def redact(answer: Any, hidden: Collection[str]) -> Any:
    """The answer without ids of jobs in the hidden namespaces, in values, keys and messages."""
    if not hidden:
        return answer
    match answer:
        case str():
            return _TOKEN.sub(lambda found: HIDDEN if found[1] in hidden else found[0], answer)
        case dict():
            return {redact(key, hidden): redact(value, hidden) for key, value in answer.items()}
        case list() | tuple():
            return [redact(each, hidden) for each in answer]
    return answer
