"""Compares what two operators did in a case, and asks of each difference whether it is intended."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

MISSING = "nothing"


@dataclass(frozen=True, slots=True)
class Difference:
    """A place at which the operators differ, such as `2/pods/job-worker-0/phase`: 2 is the number of the action."""

    case: str
    path: str
    theirs: Any
    ours: Any

    def __str__(self) -> str:
        return f"{self.case} {self.path}: {self.theirs!r} there, {self.ours!r} here"


def differences(case: str, theirs: Any, ours: Any, path: str = "") -> Iterator[Difference]:
    """Yields where two values differ. Lists of named things are compared by name, others as a whole."""
    theirs, ours = _by_name(theirs), _by_name(ours)
    if path.endswith("/events"):  # no event is an empty list, of which nothing tells what it would contain
        theirs, ours = theirs or {}, ours or {}
    if isinstance(theirs, dict) and isinstance(ours, dict):
        for name in [*theirs, *(each for each in ours if each not in theirs)]:
            below = f"{path}/{name}" if path else str(name)
            yield from differences(case, theirs.get(name, MISSING), ours.get(name, MISSING), below)
    elif theirs != ours:
        yield Difference(case, path, theirs, ours)


def _is_event(value: object) -> bool:
    return isinstance(value, str) and value.startswith(("Normal ", "Warning "))


def event_key(event: str) -> str:
    """Returns the compared part of an event: its type, its reason, and the pod or service that it is about.

    An event that is combined with similar ones, from the 11th on, names one of these.
    """
    sort, _, message = event.partition(": ")
    return f"{sort} {message.rpartition(' ')[2]}" if sort.startswith("Normal Successful") else sort


def _by_name(value: Any) -> Any:
    if isinstance(value, list) and value and all(_is_event(each) for each in value):
        return {event_key(each): True for each in value}
    for key in ("name", "type"):
        if isinstance(value, list) and value and all(isinstance(each, dict) and key in each for each in value):
            return {each[key]: each for each in value}
    if isinstance(value, list) and value and all(isinstance(each, dict) and "conditions" not in each for each in value):
        return dict(enumerate(value))
    return (
        dict(enumerate(value)) if isinstance(value, list) and any(isinstance(each, dict) for each in value) else value
    )
