"""Fields of the scheduling policy and of reservations in a cluster file: tables, checks, conversion to core types."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from windlass.core.model.policy import Policy
from windlass.core.model.reservation import Reservation
from windlass.core.placement.scores.registry import SCORES
from windlass.core.queues.orders.registry import ORDERS, can_guard_against_starvation, without_idle_guard
from windlass.jobs.errors import FieldPath
from windlass.jobs.syntax import value_types
from windlass.jobs.syntax.durations import format_duration
from windlass.jobs.syntax.field import Field, Shape, Table
from windlass.jobs.syntax.names import JOB_NAME, NODE_NAME
from windlass.jobs.syntax.value_types import choice, named, whole

_PLAIN = Policy()
_NODE = named(NODE_NAME, "name of a node", "a node's name")
_QUEUE = named(NODE_NAME, "name of a queue", "a queue's name")

POLICY: Table = (
    Field(
        "order",
        "Order in which waiting jobs are considered. "
        + " ".join(f"{name}: {order.description}." for name, order in ORDERS.items()),
        choice(tuple(ORDERS)),
        default=_PLAIN.order,
        example="fair",
        flags=("--policy",),
        foreign_names=("name", "policy"),
    ),
    Field(
        "reservations",
        "Number of the first gangs that cannot start with a time and nodes reserved, which no later gang may delay. 1 "
        "is EASY backfill; -1: every gang, conservative backfill.",
        whole(-1, 1_000_000),
        default=str(_PLAIN.reservations),
        example="4",
        foreign_names=("backfill",),
    ),
    Field(
        "starvation_guard",
        "Order windlass: aging limit. Once a job with a reservation has waited so long, a tenth of the nodes, those "
        "that are empty soonest, is closed to later jobs that last longer than two hours. It helps jobs that need no "
        "more than those nodes. 0s: off, as under every other order and without reservations.",
        value_types.DURATION,
        default=format_duration(_PLAIN.starvation_guard),
        example="1h",
    ),
    Field(
        "preempt",
        "Whether jobs may be preempted: by priority, and to reclaim quota that other queues borrow.",
        value_types.FLAG,
        default=str(_PLAIN.preempt).lower(),
        example="false",
        foreign_names=("preemption",),
    ),
    Field(
        "min_runtime",
        "Time that a job runs before it may be preempted.",
        value_types.DURATION,
        default=format_duration(_PLAIN.min_runtime),
        example="10m",
    ),
    Field(
        "max_grace",
        "Kubernetes: longest grace period of a job, and of the pods of external gangs, even if they ask for more. A "
        "change holds for jobs that arrive afterwards.",
        value_types.DURATION,
        default=format_duration(_PLAIN.max_grace),
        example="30m",
    ),
    Field(
        "resize_interval",
        "An elastic job grows no sooner than this after it has started or changed its size.",
        value_types.DURATION,
        default=format_duration(_PLAIN.resize_interval),
        example="30m",
    ),
    Field(
        "assumed_walltime",
        "Walltime that orders assume for jobs without one.",
        value_types.LIMIT,
        default=format_duration(_PLAIN.assumed_walltime),
        example="8h",
    ),
    Field(
        "age_penalty",
        "Order windlass: a job sorts as if it had come later by so many hundredths of its walltime.",
        whole(0, 1_000_000),
        default=str(_PLAIN.age_penalty),
        example="50",
    ),
    Field(
        "max_age_penalty",
        "Order windlass: the most that `age_penalty` may come to, so that no job starves.",
        value_types.DURATION,
        default=format_duration(_PLAIN.max_age_penalty),
        example="12h",
    ),
    Field(
        "scoring",
        "How nodes are chosen among those with room. " + " ".join(f"{n}: {s.description}." for n, s in SCORES.items()),
        choice(tuple(SCORES)),
        default=_PLAIN.scoring,
        example="fgd",
    ),
    Field(
        "service_limits",
        "Order las: time on one GPU, or half of it on two, after which a job falls into the next level.",
        value_types.DURATION,
        Shape.LIST,
        default=str([format_duration(limit) for limit in _PLAIN.service_limits]).replace("'", ""),
        example="[1h, 4h]",
    ),
)

RESERVATION: Table = (
    Field(
        "name",
        "What it is called.",
        named(JOB_NAME, "name", "small letters, digits and dashes, a letter first"),
        example="repair",
    ),
    Field("nodes", "Its nodes, whole.", _NODE, Shape.LIST, example="[n1, n2]"),
    Field("start", "When it begins.", value_types.MOMENT, example="2026-11-22T08:00", foreign_names=("from", "begin")),
    Field("end", "When it is over.", value_types.MOMENT, example="2026-11-22T18:00", foreign_names=("until",)),
    Field("queues", "Jobs of these queues may use it.", _QUEUE, Shape.LIST, default="[]", example="[research]"),
    Field(
        "users",
        "Jobs of these users may use it. Without queues and users no job may, as for maintenance.",
        value_types.WORD,
        Shape.LIST,
        default="[]",
        example="[ada]",
    ),
    Field("reason", "Reason, for users.", value_types.TEXT, default='""', example="new cables"),
)


def policy_of(written: Mapping[str, Any]) -> Policy:
    """The policy of a file or an option."""
    values: dict[str, Any] = {k: tuple(value) if isinstance(value, list) else value for k, value in written.items()}
    return without_idle_guard(Policy(**values))


def check_policy(written: Mapping[str, Any], base: Policy = _PLAIN) -> str:
    """The fault between the settings written and those of `base`; "" if there is none."""
    policy = replace(
        base, **{name: written[name] for name in ("order", "reservations", "starvation_guard") if name in written}
    )
    if not written.get("starvation_guard") or can_guard_against_starvation(policy):
        return ""
    why = "without reservations" if policy.reservations == 0 else f"under order {policy.order}"
    return f"starvation_guard has no effect {why}: leave it out, or use order windlass with a reservation or more"


def reservations_of(written: Sequence[Mapping[str, Any]]) -> tuple[Reservation, ...]:
    """The reservations of a file. `written` has passed `check_reservations`."""
    return tuple(
        Reservation(
            name=each["name"],
            nodes=tuple(dict.fromkeys(each["nodes"])),
            start=each["start"],
            end=each["end"],
            queues=tuple(each.get("queues", ())),
            users=tuple(each.get("users", ())),
            reason=each.get("reason", ""),
        )
        for each in written
    )


def check_reservations(
    written: Sequence[Mapping[str, Any]], nodes: Sequence[str], path: FieldPath
) -> Iterator[tuple[FieldPath, str]]:
    """Faults in the reservations of a file: (field, message)."""
    known = set(nodes)
    for number, each in enumerate(written):
        here = (*path, number)
        missing = [field.name for field in RESERVATION if not field.default and not each.get(field.name)]
        if missing:
            yield here, f"it lacks {missing[0]}; write for example {missing[0]}: {_EXAMPLES[missing[0]]}"
            continue
        if each["end"] <= each["start"]:
            yield (*here, "end"), "it ends before it begins"
        for node in each["nodes"]:
            if node not in known:
                yield (*here, "nodes"), f"there is no node {node!r}"
        for other in written[:number]:
            if overlap := overlapping_node(each, other):
                yield here, f"{other.get('name')!r} has {overlap} at that time already"


def overlapping_node(one: Mapping[str, Any], other: Mapping[str, Any]) -> str:
    """A node that both reservations hold at the same time, "" if there is none."""
    if not all(each.get(name) for each in (one, other) for name in ("nodes", "start", "end")):
        return ""
    if one["end"] <= other["start"] or other["end"] <= one["start"]:
        return ""
    return next((node for node in one["nodes"] if node in set(other["nodes"])), "")


_EXAMPLES = {field.name: field.example for field in RESERVATION}
