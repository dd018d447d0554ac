"""Finds the collective that a group waits in: a rank is missing, ranks call different ones, or the transport stalls."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Mapping

from windlass.diagnose.failures.verdict_texts import describe_ranks
from windlass.diagnose.flight.findings import (
    HangFinding,
    describe_call,
    describe_group,
    describe_last,
    describe_place,
    describe_stack,
)
from windlass.diagnose.flight.process_groups import Calls, ProcessGroup, RankHistory
from windlass.diagnose.flight.records import FlightEntry, Progress, TensorSet

_UNEVEN_INPUTS = ("all_to_all", "scatter", "all_gather_v", "reduce_scatter_v")
"""Collectives whose inputs may differ in size between ranks."""
_UNEVEN_OUTPUTS = ("all_to_all", "gather", "reduce_scatter_v")
_ONE_SIDED = frozenset({"scatter", "gather"})
"""Collectives in which the root alone has one of the two sides."""
_PREFIX = "flight recorder"


def find_in_collectives(group: ProcessGroup) -> HangFinding | None:
    """Returns the earliest finding of a group: where its ranks first diverge or wait."""
    divergence = find_divergence(group)
    return divergence or find_missing_rank(group) or find_stall(group)


def find_divergence(group: ProcessGroup) -> HangFinding | None:
    """Returns the first number under which ranks called different collectives, or of different size or type."""
    for number in sorted({number for history in group.histories.values() for number in history.collectives}):
        whole = {
            rank: calls for rank, calls in _calls_of(group, number).items() if group.histories[rank].has_whole(number)
        }
        is_over = all(calls[-1].progress is Progress.COMPLETED for calls in whole.values())
        common, deviating = _split_by_signature(whole, _names if is_over else _signatures)
        if deviating:
            return _describe_divergence(group, number, whole, common, deviating)
    return None


def find_missing_rank(group: ProcessGroup) -> HangFinding | None:
    """Returns the first collective that other ranks wait in and a rank did not enter."""
    newest = {rank: history.newest for rank, history in group.histories.items()}
    known = {rank: number for rank, number in newest.items() if number is not None}
    if not known or min(known.values()) == max(known.values()):
        return None
    last_common = min(known.values())
    number = min(each for history in group.histories.values() for each in history.collectives if each > last_common)
    missing = tuple(sorted(rank for rank, last in known.items() if last < number))
    calls = _calls_of(group, number)
    if not calls or not _is_waited_in(group, number, calls):
        return None
    waiting = tuple(sorted(calls))
    entry = calls[waiting[0]][0]
    values = {
        **_operation_values(group, number, entry),
        "missing": describe_ranks(missing),
        "waiting": describe_ranks(waiting),
        "last": describe_last(group.histories[missing[0]]),
        "now": describe_stack(group.histories[missing[0]]),
    }
    text = (
        f"{_PREFIX}: rank {values['missing']} did not enter {_operation(values)}; waiting: rank {values['waiting']}; "
        f"last operation of rank {missing[0]}: {values['last']}; its stack: {values['now']}"
    )
    return _finding("flight-missing-rank", text, values, group, missing, calls)


def find_stall(group: ProcessGroup) -> HangFinding | None:
    """Returns the first collective that all ranks with a dump entered alike and that is not completed."""
    pending = {
        number
        for history in group.histories.values()
        for number, calls in history.collectives.items()
        if calls[-1].progress.is_pending
    }
    if not pending:
        return None
    number = min(pending)
    calls = _calls_of(group, number)
    waiting = tuple(sorted(rank for rank, each in calls.items() if each[-1].progress.is_pending))
    values = {
        **_operation_values(group, number, calls[waiting[0]][0]),
        "waiting": describe_ranks(waiting),
    }
    if group.without_dump:
        values["missing"] = describe_ranks(group.without_dump)
        text = (
            f"{_PREFIX}: no dump of rank {values['missing']}; waiting: rank {values['waiting']} in {_operation(values)}"
        )
        return _finding("flight-rank-without-dump", text, values, group, group.without_dump, calls)
    if len(calls) < len(group.members):  # lost from a full buffer
        return None
    if not group.has_all_members:
        text = (
            f"{_PREFIX}: rank {values['waiting']} waits in {_operation(values)}; the group's members are not recorded"
        )
        return _finding("flight-group-of-unknown-members", text, values, group, (), calls)
    text = f"{_PREFIX}: all ranks entered {_operation(values)}; not completed on rank {values['waiting']}"
    return _finding("flight-stalled-collective", text, values, group, (), calls)


def _calls_of(group: ProcessGroup, number: int) -> dict[int, Calls]:
    """Calls under one number, by rank."""
    found = ((rank, history.collectives.get(number)) for rank, history in group.histories.items())
    return {rank: calls for rank, calls in found if calls}


def _is_waited_in(group: ProcessGroup, number: int, calls: Mapping[int, Calls]) -> bool:
    """Whether ranks still wait in this collective, or none got beyond it."""
    is_pending = any(each[-1].progress.is_pending for each in calls.values())
    return is_pending or all(_newest(group.histories[rank]) == number for rank in calls)


def _newest(history: RankHistory) -> int:
    return max(history.collectives, default=0)


def _split_by_signature(
    calls: Mapping[int, Calls], signature: Callable[[Calls], object]
) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Ranks with the most frequent call under a number, of equals the lowest rank's, and the ranks with others."""
    signatures = {rank: signature(each) for rank, each in sorted(calls.items())}
    if len(set(signatures.values())) <= 1:
        return tuple(signatures), ()
    frequent = Counter(signatures.values()).most_common(1)[0][0]
    common = tuple(rank for rank, each in signatures.items() if each == frequent)
    return common, tuple(rank for rank in signatures if rank not in common)


def _names(calls: Calls) -> object:
    return tuple(entry.name for entry in calls)


def _signatures(calls: Calls) -> object:
    return tuple(_signature(entry) for entry in calls)


def _signature(entry: FlightEntry) -> tuple[object, ...]:
    """All that must be equal on all ranks of a group: name, number of elements and type of the tensors."""
    sides = {
        "inputs": (entry.inputs, _UNEVEN_INPUTS),
        "outputs": (entry.outputs, _UNEVEN_OUTPUTS),
    }
    compared = [_elements(side) for side, uneven in sides.values() if not entry.name.startswith(uneven)]
    types = () if entry.name in _ONE_SIDED else (frozenset(entry.inputs.types), frozenset(entry.outputs.types))
    return entry.name, *compared, *types


def _elements(tensors: TensorSet) -> int:
    return sum(math.prod(shape) for shape in tensors.sizes)


def _describe_divergence(
    group: ProcessGroup, number: int, calls: Mapping[int, Calls], common: tuple[int, ...], deviating: tuple[int, ...]
) -> HangFinding:
    other, usual = calls[deviating[0]], calls[common[0]]
    values = {
        "deviating": describe_ranks(deviating),
        "common": describe_ranks(common),
        "seq": str(number),
        "group": describe_group(group),
        "call": f"{describe_call(other)} at {describe_place(other[0])}",
        "other": f"{describe_call(usual)} at {describe_place(usual[0])}",
        "how": _difference(group, number, deviating[0], common[0]),
    }
    text = (
        f"{_PREFIX}: number {number} of group {values['group']} differs in {values['how']}: "
        f"rank {values['deviating']} called {values['call']}; rank {values['common']} called {values['other']}"
    )
    return _finding("flight-divergent-collectives", text, values, group, deviating, calls)


def _difference(group: ProcessGroup, number: int, deviating: int, common: int) -> str:
    """Kind of a difference: order, operation, size or type."""
    histories = group.histories[deviating].collectives, group.histories[common].collectives
    one, two = (_names(history[number]) for history in histories)
    next_one, next_two = (_names(history.get(number + 1, ())) for history in histories)
    if one != two:
        return "order" if (one, next_one) == (next_two, two) else "operation"
    first, second = (history[number][0] for history in histories)
    return "type" if set(first.inputs.types) != set(second.inputs.types) else "size"


def _operation_values(group: ProcessGroup, number: int, entry: FlightEntry) -> dict[str, str]:
    return {"op": entry.name, "seq": str(number), "group": describe_group(group), "place": describe_place(entry)}


def _operation(values: Mapping[str, str]) -> str:
    return f"{values['op']}, number {values['seq']} of group {values['group']}, called at {values['place']}"


def _finding(
    rule: str,
    text: str,
    values: Mapping[str, str],
    group: ProcessGroup,
    ranks: tuple[int, ...],
    calls: Mapping[int, Calls],
) -> HangFinding:
    waiting = tuple(sorted(rank for rank in calls if rank not in ranks))
    times = [calls[rank][-1].created_ns for rank in waiting if calls[rank][-1].created_ns]
    source = group.histories[next(iter(waiting or calls))].dump.source
    return HangFinding(rule, text, values, ranks, waiting, source, min(times, default=0))
