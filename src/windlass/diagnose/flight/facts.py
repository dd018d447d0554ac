"""Facts for a diagnosis: the findings of the flight recorders and of the heartbeats among the files of a job."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from windlass.diagnose.diagnosis import EvidenceLine
from windlass.diagnose.failures.evidence import Fact
from windlass.diagnose.flight.analysis import analyse_dumps
from windlass.diagnose.flight.dump_files import read_dump_files
from windlass.diagnose.flight.findings import HangFinding
from windlass.diagnose.flight.heartbeats import find_last_rank
from windlass.diagnose.flight.rank_places import RankPlace, find_places
from windlass.diagnose.flight.stack_files import read_stack_files
from windlass.diagnose.flight.stack_findings import find_in_stack, find_outside_collective
from windlass.diagnose.flight.status_files import read_status_files

_NS_PER_MS = 1_000_000


@dataclass(frozen=True, slots=True)
class HangEvidence:
    """Facts that flight recorders and heartbeats prove."""

    facts: Sequence[Fact] = ()
    gaps: Sequence[str] = ()
    """Limits of the evidence: ranks without a dump, dumps that cannot be read."""
    paths: frozenset[Path] = frozenset()
    """The files that hold it; none of them is a log."""
    places: Mapping[int, RankPlace] = field(default_factory=dict)
    """Place of each rank when its files were written."""


def read_hang_evidence(paths: Iterable[Path], expected_ranks: int | None = None) -> HangEvidence:
    """Returns the facts of dumps and rank status files among these files. `expected_ranks`: ranks of the job."""
    paths = [path for path in paths if path.is_file()]  # a pipe can be read only once
    # 1. dumps, heartbeats and stacks of the latest attempt
    files, statuses = read_dump_files(paths), read_status_files(paths)
    stacks = read_stack_files(paths, files.dumps, statuses.nodes)
    # 2. what waits for what
    report = analyse_dumps([replace(dump, stack=stacks.get(dump.rank)) for dump in files.dumps], expected_ranks)
    missing = {rank: finding for finding in report.findings for rank in finding.ranks}
    # 3. without flight recorders the ranks whose stacks are outside of a collective
    outside = None if report.findings else find_outside_collective(stacks)
    missing |= dict.fromkeys(outside.ranks, outside) if outside else {}
    # 4. work of the ranks that the others wait for, up to the time at which anything was written
    busy = [find_in_stack(rank, stacks[rank], each.time_ns) for rank, each in missing.items() if rank in stacks]
    written_ms = max((dump.written_ns // _NS_PER_MS for dump in files.dumps), default=0)
    behind = find_last_rank(statuses.ranks, max(statuses.written_ms, written_ms), missing.keys())
    # 5. facts
    facts = [fact_of(finding) for finding in [*report.findings, outside, *busy, behind] if finding]
    gaps = [*report.gaps, *files.problems, *statuses.problems]
    return HangEvidence(facts, gaps, files.paths | statuses.paths, find_places(files.dumps, stacks))


def fact_of(finding: HangFinding) -> Fact:
    """Returns a finding as a fact. Its rank is the one that the finding blames, if it is one.

    It has no time: the clocks of recorders and logs are not aligned.
    """
    rank = finding.ranks[0] if len(finding.ranks) == 1 else None
    return Fact(finding.rule, EvidenceLine(finding.source, 0, finding.text), finding.values, rank)
