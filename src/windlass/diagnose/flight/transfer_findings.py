"""Finds a send without its receive, and a receive without its send."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from windlass.diagnose.flight.findings import HangFinding, describe_group, describe_last, describe_place, describe_stack
from windlass.diagnose.flight.process_groups import ProcessGroup, RankHistory
from windlass.diagnose.flight.records import FlightEntry


@dataclass(frozen=True, slots=True)
class _Side:
    """Transfers of one rank to or from one peer, from the oldest to the newest."""

    rank: int
    history: RankHistory
    calls: tuple[FlightEntry, ...]

    @property
    def pending(self) -> tuple[FlightEntry, ...]:
        return tuple(entry for entry in self.calls if entry.progress.is_pending)


def find_in_transfers(group: ProcessGroup) -> list[HangFinding]:
    """Returns one finding for each pair of ranks of which one waits in a transfer that the other has not called."""
    return [finding for sending, receiving in _pairs(group) for finding in _compare(group, sending, receiving)]


def _pairs(group: ProcessGroup) -> Iterator[tuple[_Side, _Side]]:
    """Sender and receiver of each pair of ranks that both have a dump."""
    pairs = {
        (entry.transfer.sender, entry.transfer.receiver)
        for history in group.histories.values()
        for entry in history.transfers
        if entry.transfer
    }
    for pair in sorted(pairs):
        sides = [
            _side(group, position, pair, is_send=is_send) for position, is_send in zip(pair, (True, False), strict=True)
        ]
        if sides[0] and sides[1]:
            yield sides[0], sides[1]


def _side(group: ProcessGroup, position: int, pair: tuple[int, int], *, is_send: bool) -> _Side | None:
    rank = group.rank_of(position)
    history = group.histories.get(rank) if rank is not None else None
    if rank is None or history is None:
        return None
    calls = (each for each in history.transfers if each.transfer and each.transfer.is_send is is_send)
    return _Side(rank, history, tuple(each for each in calls if _pair(each) == pair))


def _pair(entry: FlightEntry) -> tuple[int, int] | None:
    return (entry.transfer.sender, entry.transfer.receiver) if entry.transfer else None


def _compare(group: ProcessGroup, sending: _Side, receiving: _Side) -> Iterator[HangFinding]:
    """Yields the side that waits for a call of the other one."""
    for waiting, absent in ((sending, receiving), (receiving, sending)):
        is_wrapped = waiting.history.dump.is_wrapped or absent.history.dump.is_wrapped
        mine, theirs = (waiting.pending, absent.pending) if is_wrapped else (waiting.calls, absent.calls)
        surplus = [entry for entry in mine[len(theirs) :] if entry.progress.is_pending]
        if surplus:
            yield _describe(group, waiting, absent, surplus[0])


def _describe(group: ProcessGroup, waiting: _Side, absent: _Side, entry: FlightEntry) -> HangFinding:
    values = {
        "waiting": str(waiting.rank),
        "missing": str(absent.rank),
        "op": entry.name,
        "counterpart": "recv" if entry.name == "send" else "send",
        "group": describe_group(group),
        "place": describe_place(entry),
        "last": describe_last(absent.history),
        "now": describe_stack(absent.history),
    }
    text = (
        f"flight recorder: rank {values['waiting']} waits in {values['op']} of group {values['group']}, "
        f"called at {values['place']}; no {values['counterpart']} of rank {values['missing']}; "
        f"last operation of rank {values['missing']}: {values['last']}; its stack: {values['now']}"
    )
    source = waiting.history.dump.source
    return HangFinding(
        "flight-unmatched-transfer", text, values, (absent.rank,), (waiting.rank,), source, entry.created_ns
    )
