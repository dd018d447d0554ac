"""Aligns the dumps of all ranks: for each process group its members, and each member's operations by number."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from windlass.diagnose.flight.records import FlightDump, FlightEntry

_DEFAULT_GROUP = "default_pg"
_NO_DESCRIPTION = "undefined"
Calls = tuple[FlightEntry, ...]
"""Operations of one rank under one number: several where calls are coalesced."""


@dataclass(frozen=True, slots=True)
class RankHistory:
    """Operations of one rank in one group."""

    dump: FlightDump
    collectives: Mapping[int, Calls]
    """By sequence number."""
    transfers: Sequence[FlightEntry]
    """Sends and receives, from the oldest to the newest."""

    @property
    def newest(self) -> int | None:
        """The newest sequence number; 0 before the first collective; None if it is lost from a full buffer."""
        return max(self.collectives, default=None if self.dump.is_wrapped else 0)

    @property
    def last(self) -> FlightEntry | None:
        """The newest operation of the rank in any group, by the thread that uses this group if that is known."""
        own = [*(calls[-1] for calls in self.collectives.values()), *self.transfers]
        threads = {max(own, key=lambda entry: entry.created_ns).thread} if own else set()
        entries = (entry for entry in reversed(self.dump.entries) if not threads or entry.thread in threads)
        return next(entries, None)

    def has_whole(self, number: int) -> bool:
        """Whether all operations under this number are recorded: the oldest may have lost some in a full buffer."""
        return number in self.collectives and (not self.dump.is_wrapped or number > min(self.collectives))


@dataclass(frozen=True, slots=True)
class ProcessGroup:
    """One process group with the histories of its members that have a dump."""

    backend: str
    name: str
    description: str
    members: tuple[int, ...]
    """Global ranks, in the order of their ranks in the group."""
    histories: Mapping[int, RankHistory]
    """By global rank."""
    has_all_members: bool = True
    """Whether the members are known; otherwise they are the ranks that have called something in the group."""

    @property
    def title(self) -> str:
        """Name for reports: what the group is for, or its number."""
        return group_title(self.name, self.description)

    @property
    def without_dump(self) -> tuple[int, ...]:
        """Members without a dump."""
        return tuple(rank for rank in self.members if rank not in self.histories)

    def rank_of(self, position: int) -> int | None:
        """Global rank of a member by its rank in the group."""
        return self.members[position] if position < len(self.members) else None


def group_title(name: str, description: str) -> str:
    """Returns the name of a group for reports: its purpose, or its number."""
    return name if description in ("", _NO_DESCRIPTION) else description


_Key = tuple[str, str, str, tuple[int, ...]]
"""Backend, name, description and listed members of a group: groups of one name may have different members."""


def align_dumps(dumps: Iterable[FlightDump], expected_ranks: int | None = None) -> list[ProcessGroup]:
    """Returns all process groups of the dumps, one of each rank. `expected_ranks`: number of ranks of the job."""
    entries: dict[_Key, dict[int, list[FlightEntry]]] = defaultdict(dict)
    by_rank = {dump.rank: dump for dump in dumps}
    for dump in by_rank.values():
        backends: dict[str, set[str]] = defaultdict(set)
        for entry in dump.entries:
            backends[entry.group].add(entry.backend)
        for (name, description), ranks in dump.members.items():
            for backend in backends[name]:
                for rank in ranks:  # a member without an entry has not called anything in the group
                    if rank in by_rank:
                        entries[backend, name, description, ranks].setdefault(rank, [])
        for entry in dump.entries:
            ranks = dump.members.get((entry.group, entry.description), ())
            key = entry.backend, entry.group, entry.description, ranks
            entries[key].setdefault(dump.rank, []).append(entry)
    world = max([expected_ranks or 0, *(rank + 1 for rank in by_rank)])
    return [_build_group(key, called, by_rank, world) for key, called in sorted(entries.items())]


def _build_group(
    key: _Key, called: Mapping[int, Sequence[FlightEntry]], dumps: Mapping[int, FlightDump], world: int
) -> ProcessGroup:
    backend, name, description, ranks = key
    has_all_members = bool(ranks) or description == _DEFAULT_GROUP
    if not ranks:  # gloo lists no members
        ranks = tuple(range(world)) if description == _DEFAULT_GROUP else tuple(sorted(called))
    histories = {rank: _build_history(dumps[rank], called.get(rank, ())) for rank in ranks if rank in dumps}
    return ProcessGroup(backend, name, description, ranks, histories, has_all_members)


def _build_history(dump: FlightDump, entries: Sequence[FlightEntry]) -> RankHistory:
    collectives, transfers = _by_number(entries, is_p2p=False), _by_number(entries, is_p2p=True)
    ended = [replace(entry, progress=calls[-1].progress) for calls in transfers.values() for entry in calls]
    return RankHistory(dump, collectives, [entry for entry in ended if entry.transfer is not None])


def _by_number(entries: Sequence[FlightEntry], *, is_p2p: bool) -> dict[int, Calls]:
    found: dict[int, list[FlightEntry]] = defaultdict(list)
    for entry in entries:
        if entry.is_p2p is is_p2p:
            found[entry.sequence].append(entry)
    return {number: tuple(calls) for number, calls in found.items()}
