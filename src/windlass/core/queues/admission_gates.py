"""Admission gates: a hold of the backend or the controller, backoff, dependencies, a begin time, an array's limit.

And an exclusive resource that several gangs request and that has no column in the node table, as too many have one.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from itertools import zip_longest
from types import MappingProxyType

from windlass.core.model.gang import PendingGang
from windlass.core.model.job import Condition
from windlass.core.model.moments import format_moment_utc
from windlass.core.model.reasons import Gate, Reason, StartCertainty, Verdict
from windlass.core.nodes.exclusive_requests import MAX_CONTENDED
from windlass.core.nodes.exclusive_rows import exclusive_names

_AWAITED = MappingProxyType({Condition.STARTED: "start", Condition.FAILED: "fail"})


def is_gated(gang: PendingGang, arrays: Mapping[str, int], uncounted: Collection[str], now: int) -> bool:
    """Tells whether any gate is closed.

    `arrays`: number of members that hold nodes, by array; `uncounted`: `Snapshot.uncounted_exclusives`.
    """
    return (
        bool(gang.hold)
        or bool(gang.waits_for)
        or now < gang.earliest_start
        or (gang.array_limit > 0 and arrays.get(gang.array_id, 0) >= gang.array_limit)
        or (bool(uncounted) and any(name in uncounted for name in exclusive_names(gang.demands)))
    )


def gate_verdict(gang: PendingGang, arrays: Mapping[str, int], uncounted: Collection[str], now: int) -> Verdict | None:
    """Returns the verdict of the first closed gate, or None if all are open."""
    if gang.hold:
        return Verdict(Reason.ON_HOLD, gang.hold, gate=Gate.HOLD)
    if gang.not_before is not None and now < gang.not_before:
        return Verdict(Reason.ON_HOLD, "waits out its backoff after a failure", gate=Gate.BACKOFF)
    if gang.begin is not None and now < gang.begin and not gang.waits_for:
        return _before_begin(gang.begin)
    if not is_gated(gang, arrays, uncounted, now):
        return None
    gate, text = _closed_gate(gang, arrays, uncounted)
    return Verdict(Reason.ADMISSION_GATED, text, gate=gate)


def _closed_gate(gang: PendingGang, arrays: Mapping[str, int], uncounted: Collection[str]) -> tuple[Gate, str]:
    """Returns the closed gate of a gang that waits for no time, and a text."""
    if gang.waits_for:
        return Gate.DEPENDENCY, f"waits for {_awaited(gang)}"
    if found := [name for name in exclusive_names(gang.demands) if name in uncounted]:
        text = f"requests {found[0]}, as other gangs do: at most {MAX_CONTENDED} host ports and anti-affinities that"
        return Gate.EXCLUSIVE_RESOURCE, f"{text} several gangs request are scheduled at a time"
    running = arrays.get(gang.array_id, 0)
    text = f"{running} of its array hold{'s' * (running == 1)} nodes, its limit is {gang.array_limit}"
    return Gate.ARRAY_LIMIT, text


def next_begin(begins: Iterable[int | None], now: int) -> int | None:
    """Returns the first begin time, in ms, that is still to come."""
    return min((at for at in begins if at is not None and at > now), default=None)


def _before_begin(begin: int) -> Verdict:
    """Returns the verdict of a gang before its begin time, in a text that stays true until then."""
    text = f"waits for its begin time {format_moment_utc(begin)}"
    certain = StartCertainty.EARLIEST
    return Verdict(Reason.ADMISSION_GATED, text, eta=begin, certainty=certain, gate=Gate.BEGIN_TIME)


def _awaited(gang: PendingGang) -> str:
    """The jobs that a gang waits for, by what they must reach: "a, b to end and c to start"."""
    names: dict[str, list[str]] = {}
    for job_id, condition in zip_longest(gang.waits_for, gang.wanted):
        names.setdefault(_AWAITED.get(condition, "end"), []).append(job_id)
    return " and ".join(f"{_some(tuple(ids))} to {verb}" for verb, ids in names.items())


def _some(names: tuple[str, ...], most: int = 3) -> str:
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return ", ".join(names[:most]) + more
