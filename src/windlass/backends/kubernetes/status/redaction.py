"""Removal of other namespaces' jobs from answers and from the messages in objects.

Their ids are replaced, so that counts stay right. Pure.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection
from dataclasses import dataclass, replace
from typing import Any

from windlass.core.model.status import Status

HIDDEN = "(another namespace)"
_TOKEN = re.compile(r"(?:apart/)?(?<![\w.-])([a-z0-9](?:[-a-z0-9]*[a-z0-9])?)/[\w.:/-]*\w")
"""An id of a job: its namespace and the rest, such as `team/pytorchjob/digits`.

Also the exclusive resource of pods that keep apart from their own kind, `apart/team/app=web`. No part of a qualified
name, such as `windlass.dev/gang`, is one.
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


@dataclass(frozen=True, slots=True)
class MessageRedaction:
    """Redaction of what is written into an object: users of its namespace may read it, and no other names.

    `is_known` tells whether a namespace has, or had, jobs or pods.
    """

    is_known: Callable[[str], bool]

    def message(self, text: str, namespace: str) -> str:
        """The message for an object of a namespace, or of the cluster (""), without ids of all other namespaces."""
        if "/" not in text:
            return text
        named = set(_TOKEN.findall(text))
        return str(redact(text, {each for each in named if each != namespace and self.is_known(each)}))

    def status(self, status: Status, namespace: str) -> Status:
        """The status of a job of a namespace, with such messages."""
        failure = status.last_failure
        if failure is not None:
            failure = replace(failure, message=self.message(failure.message, namespace))
        cause = status.diagnosis
        if cause is not None:
            text, unseen = self.message(cause.text, namespace), self.message(cause.unseen, namespace)
            cause = replace(cause, text=text, unseen=unseen)
        return replace(status, message=self.message(status.message, namespace), last_failure=failure, diagnosis=cause)
