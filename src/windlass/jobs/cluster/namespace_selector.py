"""The namespaceSelector of a queue: fields as in Kubernetes' LabelSelector, checks, conversion to conditions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from windlass.core.model.job import Match
from windlass.core.nodes.affinity import affinity_fault
from windlass.jobs.syntax.field import Field, Shape, Table
from windlass.jobs.syntax.names import KUBERNETES_LABEL
from windlass.jobs.syntax.value_types import WORD, choice, named

_OPERATORS = ("In", "NotIn", "Exists", "DoesNotExist")
_NEVER = Match("", "Exists")
"""A condition that no namespace meets: none has a label without a name."""

_EXPRESSION: Table = (
    Field("key", "The label.", named(KUBERNETES_LABEL, "label", "a label's name"), example="team"),
    Field("operator", "In, NotIn, Exists or DoesNotExist.", choice(_OPERATORS), example="In"),
    Field("values", "Values, for In and NotIn.", WORD, Shape.LIST, default="[]", example="[a, b]"),
)
SELECTOR: Table = (
    Field(
        "matchLabels",
        "Labels that a namespace must have.",
        WORD,
        Shape.MAP,
        default="{}",
        example="{team: vision}",
        key_pattern=KUBERNETES_LABEL,
        key_label="label",
    ),
    Field(
        "matchExpressions",
        "Further conditions on a namespace's labels, all of which must hold.",
        shape=Shape.TABLES,
        default="[]",
        example="[{key: team, operator: In, values: [a, b]}]",
        table=_EXPRESSION,
    ),
)


def conditions_of(written: Mapping[str, Any] | None) -> tuple[Match, ...] | None:
    """Conditions of a selector, all of which must hold; none without a selector. A faulty one matches no namespace."""
    if written is None:
        return None
    equal = (Match(key, "In", (value,)) for key, value in written.get("matchLabels", {}).items())
    others = [_condition(each) for each in written.get("matchExpressions", ())]
    return (*equal, *(_NEVER if selector_fault([each]) else each for each in others))


def fault_of(written: Mapping[str, Any]) -> str:
    """The fault of a selector and its fix, or ""."""
    return selector_fault([_condition(each) for each in written.get("matchExpressions", ())])


def selector_fault(conditions: Sequence[Match]) -> str:
    """The fault of the first faulty condition, or ""."""
    if any(not each.key or not each.operator for each in conditions):
        return "an item of matchExpressions needs a key and an operator"
    return affinity_fault([conditions]).replace("the affinity's", "the selector's")


def _condition(each: Mapping[str, Any]) -> Match:
    return Match(each.get("key", ""), each.get("operator", ""), tuple(each.get("values", ())))
