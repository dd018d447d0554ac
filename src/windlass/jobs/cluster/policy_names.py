"""Reads policies by name: `fifo`, `sjf+easy`, `windlass:reservations=4,age-penalty=50`."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import Any

from windlass.core.model.policy import Policy
from windlass.core.queues.orders.registry import POLICIES, without_idle_guard
from windlass.jobs.cluster.policy_fields import POLICY, check_policy
from windlass.jobs.syntax.names import did_you_mean
from windlass.jobs.syntax.settings_line import read_spelled

ADDITIONS: Mapping[str, Mapping[str, Any]] = MappingProxyType(
    {
        "strict": {"reservations": 0},
        "easy": {"reservations": 1},
        "conservative": {"reservations": -1},
        "nopreempt": {"preempt": False},
    }
)
"""Additions to a name, after a plus, with their settings."""

CLUSTERS_OWN = "cluster"
"""The name of the policy that a cluster file declares."""

_SETTINGS = tuple(field for field in POLICY if field.name != "order")


def read_policies(texts: Iterable[str], own: Policy | None = None) -> dict[str, Policy]:
    """Returns each requested policy under the words of its request; commas separate several in one text.

    A request is a name, additions behind pluses, settings behind a colon. `own` is known as "cluster". Raises
    ValueError.
    """
    known = POLICIES if own is None else {**POLICIES, CLUSTERS_OWN: own}
    found: dict[str, Policy] = {}
    for text in texts:
        for words in _apart(text):
            if words in found:
                raise ValueError(f"{words!r} is named twice")
            found[words] = read_policy(words, known)
    if not found:
        raise ValueError(f"names no policy; there are {', '.join(known)}")
    return found


def _apart(text: str) -> Iterator[str]:
    """The policies of a list: a part that is a setting belongs to the one before it."""
    whole = ""
    for part in (part.strip() for part in text.split(",")):
        if whole and "=" in part and ":" not in part:
            whole += f",{part}"
        elif part:
            if whole:
                yield whole
            whole = part
    if whole:
        yield whole


def read_policy(words: str, known: Mapping[str, Policy] = POLICIES) -> Policy:
    """One policy. Raises ValueError with a text that lists the names."""
    named, _, settings = words.partition(":")
    name, *additions = named.split("+")
    if name not in known:
        there_are = f"; there are {', '.join(known)}"
        raise ValueError(f"there is no policy {name!r}{did_you_mean(name, known) or there_are}")
    given: dict[str, Any] = {}
    for addition in additions:
        if addition not in ADDITIONS:
            raise ValueError(f"a policy has no addition {addition!r}{did_you_mean(addition, ADDITIONS)}")
        given |= ADDITIONS[addition]
    if settings:
        given |= read_spelled(settings.split(","), _SETTINGS)
    if wrong := check_policy(given, known[name]):
        raise ValueError(f"{words!r}: {wrong}")
    return without_idle_guard(replace(known[name], **given))
