"""Fields of the queues of a cluster file (trees, quota and lending, limits for users): table, checks, conversion."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from windlass.core.model.job import DEFAULT_QUEUE
from windlass.core.model.queue import Queue
from windlass.core.queues.queue_tree import find_faults, tree_of
from windlass.jobs.cluster import namespace_selector
from windlass.jobs.errors import FieldPath
from windlass.jobs.syntax import value_types
from windlass.jobs.syntax.field import Field, Shape, Table
from windlass.jobs.syntax.names import NODE_NAME
from windlass.jobs.syntax.value_types import named, whole

MAX_WEIGHT = 1_000_000
MAX_JOBS = 1_000_000_000
MAX_PRIORITY = 1_000_000_000
_INHERITED = ("half_life", "unreachable_grace")
"""Settings that a queue takes from the nearest queue above it that declares them."""

_SELECTOR = "namespaceSelector"

_NAME = named(NODE_NAME, "name", "small letters, digits, dashes and dots")
_QUOTA: Table = (
    Field(
        "gpu",
        "GPUs, whole ones, parts and slices together.",
        whole(0, 2**53),
        default="no limit",
        example="8",
        foreign_names=("gpus",),
    ),
    Field("cpu", "CPU cores.", value_types.CORES, default="no limit", example="64", foreign_names=("cpus",)),
    Field("memory", "Memory.", value_types.BYTES, default="no limit", example="1Ti", foreign_names=("mem",)),
)

QUEUE: Table = (
    Field("name", "The queue's name.", _NAME, example="team-a"),
    Field(
        "parent",
        "The queue above it. Queues of one tree lend each other what they do not use.",
        _NAME,
        default="none: it cannot borrow, and its quota is a hard limit",
        example="research",
        foreign_names=("cohort", "parentQueue"),
    ),
    Field(
        "weight",
        "Its share, in proportion to its siblings, of resources beyond all quotas.",
        whole(1, MAX_WEIGHT),
        default="1",
        example="2",
        foreign_names=("share", "shares", "fairshare", "overQuotaWeight"),
    ),
    Field(
        "quota",
        "Resources that its jobs together may always hold. A parent's quota adds to those of its children.",
        shape=Shape.TABLE,
        default="{} (no limit, if no queue of its tree has one)",
        example="{gpu: 4}",
        table=_QUOTA,
        foreign_names=("nominal", "limits", "nominalQuota", "deserved"),
    ),
    Field(
        "borrowing",
        "The most that it may hold beyond its quota.",
        shape=Shape.TABLE,
        default="{} (all that is lent)",
        example="{gpu: 2}",
        table=_QUOTA,
        foreign_names=("borrow", "borrowingLimit", "borrowing_limit"),
    ),
    Field(
        "lending",
        "The most of its quota that others may use.",
        shape=Shape.TABLE,
        default="{} (all that is idle)",
        example="{gpu: 2}",
        table=_QUOTA,
        foreign_names=("lend", "lendingLimit", "lending_limit"),
    ),
    Field(
        "half_life",
        "Past use counts in its share, half after so long. 0s: it does not count.",
        value_types.DURATION,
        default="its parent's, or 0s",
        example="7d",
        foreign_names=("halfLife", "decay"),
    ),
    Field(
        "unreachable_grace",
        "How long a node may be unreachable before the queue's jobs have lost it. A job may name its own.",
        value_types.DURATION,
        default="its parent's, or 5m",
        example="30m",
        foreign_names=("toleration_seconds", "tolerationSeconds"),
    ),
    Field(
        "max_running",
        "Jobs, its own and those of the queues below it, that may hold nodes at a time. 0: no limit.",
        whole(0, MAX_JOBS),
        default="0",
        example="20",
        foreign_names=("max_jobs", "MaxJobs", "GrpJobs"),
    ),
    Field(
        "user_running",
        "The same for the jobs of one user. 0: no limit.",
        whole(0, MAX_JOBS),
        default="0",
        example="4",
        foreign_names=("max_jobs_per_user", "MaxJobsPerUser"),
    ),
    Field(
        "user_limits",
        "The most that the jobs of one user may hold together.",
        shape=Shape.TABLE,
        default="{} (no limit)",
        example="{gpu: 8}",
        table=_QUOTA,
        foreign_names=("per_user", "MaxTRESPerUser"),
    ),
    Field(
        "max_priority",
        "The highest priority that a job may ask for by a number. A PriorityClass may give it more.",
        whole(-MAX_PRIORITY, MAX_PRIORITY),
        default="no limit; on Kubernetes 0",
        example="10",
        foreign_names=("maxPriority", "priority"),
    ),
    Field(
        _SELECTOR,
        "Namespaces of Kubernetes whose jobs may use the queue, by their labels; {} selects all.",
        shape=Shape.TABLE,
        default="namespaces that name it in the label windlass.dev/queue; for the default queue all",
        example="{matchLabels: {team: vision}}",
        table=namespace_selector.SELECTOR,
        foreign_names=("namespace_selector", "namespaces"),
    ),
)


def queues_of(written: Sequence[Mapping[str, Any]]) -> tuple[Queue, ...]:
    """The queues of a file that has passed `check_queues`, and the default queue, first, even if it is not written."""
    return tuple(_with_inherited_settings(_declared(written), written).values())


def check_queues(written: Sequence[Mapping[str, Any]], path: FieldPath) -> Iterator[tuple[FieldPath, str]]:
    """Faults between queues. All have names, and no two the same one."""
    places = {each["name"]: number for number, each in enumerate(written)}
    for fault in find_faults(_declared(written)):
        yield (*path, places[fault.queue], fault.field), fault.message
    for number, each in enumerate(written):
        if fault_text := namespace_selector.fault_of(each.get(_SELECTOR, {})):
            yield (*path, number, _SELECTOR), fault_text


def warnings_of(queues: Iterable[Queue]) -> Iterator[str]:
    """Warnings for what is valid and perhaps not intended: queues without a limit beside queues with one."""
    tree = tree_of({queue.name: queue for queue in queues})
    limited = frozenset[str]().union(*tree.limited_resources.values())
    for root in (name for name, path in tree.path.items() if len(path) == 1):
        if free := sorted(limited - tree.limited_resources.get(root, frozenset())):
            yield (
                f"queue {root} has no quota of {', '.join(free)}: its jobs may hold all that other queues have a quota "
                "of, and none can ask for its own back; give it a quota (0 closes it), or a parent"
            )


def _declared(written: Sequence[Mapping[str, Any]]) -> dict[str, Queue]:
    return {DEFAULT_QUEUE: Queue(DEFAULT_QUEUE), **{each["name"]: _queue(each) for each in written}}


def _queue(written: Mapping[str, Any]) -> Queue:
    plain = {name: value for name, value in written.items() if name not in ("quota", _SELECTOR)}
    selector = namespace_selector.conditions_of(written.get(_SELECTOR))
    return Queue(nominal=written.get("quota", {}), namespace_selector=selector, **plain)


def _with_inherited_settings(queues: dict[str, Queue], written: Sequence[Mapping[str, Any]]) -> dict[str, Queue]:
    """Sets the inherited settings of each queue to those of the nearest queue above it that declares them."""
    declared = {each["name"]: {name: each[name] for name in _INHERITED if name in each} for each in written}
    path = tree_of(queues).path
    settings: dict[str, dict[str, Any]] = {name: {} for name in queues}
    for name, levels in path.items():
        for level in reversed(levels):
            settings[name].update(declared.get(level, {}))
    return {name: replace(queue, **settings[name]) for name, queue in queues.items()}
