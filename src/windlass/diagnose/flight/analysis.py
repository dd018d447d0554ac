"""Analyses the flight recorders of all ranks: the findings that explain the others, and the gaps of the evidence."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from windlass.diagnose.failures.verdict_texts import describe_ranks
from windlass.diagnose.flight.collective_findings import find_in_collectives
from windlass.diagnose.flight.findings import HangFinding, describe_group
from windlass.diagnose.flight.process_groups import ProcessGroup, align_dumps
from windlass.diagnose.flight.records import FlightDump
from windlass.diagnose.flight.transfer_findings import find_in_transfers

MIN_WAIT_S = 1.0
"""Shortest wait that counts: dumps of a job that runs show ranks that wait for each other for some milliseconds."""
_CROSSED = "flight-crossed-groups"


@dataclass(frozen=True, slots=True)
class FlightReport:
    """Result of the analysis."""

    findings: Sequence[HangFinding] = ()
    """Findings that no other finding explains."""
    gaps: Sequence[str] = ()
    """Limits of the evidence."""


def analyse_dumps(dumps: Sequence[FlightDump], expected_ranks: int | None = None) -> FlightReport:
    """Returns the findings of the newest dump of each rank. `expected_ranks`: number of ranks of the job."""
    # 1. process groups with the operations of their members
    groups = align_dumps(dumps, expected_ranks)
    # 2. what each group waits for
    written_ns = max((dump.written_ns for dump in dumps), default=0)
    found = [finding for group in groups for finding in _find_in(group) if _is_long(finding, written_ns)]
    # 3. of these, the findings that explain the others
    missing = set(range(expected_ranks or 0)) - {dump.rank for dump in dumps} if dumps else set()
    return FlightReport(_root_findings(found), [*_gaps(groups, missing)])


def _find_in(group: ProcessGroup) -> Iterator[HangFinding]:
    finding = find_in_collectives(group)
    if finding:
        yield finding
    yield from find_in_transfers(group)


def _is_long(finding: HangFinding, written_ns: int) -> bool:
    """Whether ranks have waited long enough, or their wait is unknown: a copied file may have any time."""
    waited = written_ns - finding.time_ns
    return not finding.time_ns or waited < 0 or waited >= MIN_WAIT_S * 1e9


def _root_findings(found: Sequence[HangFinding]) -> list[HangFinding]:
    """Leaves out findings whose blamed ranks wait themselves, and stalls behind a finding that blames a rank."""
    blaming = [each for each in found if each.ranks]
    roots = [each for each in blaming if not any(_explains(other, each) for other in found if other is not each)]
    stalls = [each for each in found if not each.ranks]
    roots += [each for each in stalls if not any(set(each.waiting) & set(root.waiting) for root in roots)]
    return roots or _cycle(blaming)


def _explains(cause: HangFinding, effect: HangFinding) -> bool:
    """Whether a rank that `effect` blames waits in `cause`."""
    return bool(set(effect.ranks) & set(cause.waiting))


def _cycle(blaming: Sequence[HangFinding]) -> list[HangFinding]:
    """Root of findings that blame each other: different operations under one number, else the crossing itself."""
    divergent = [each for each in blaming if not {"op", "place"} <= each.values.keys()]
    return divergent[:1] or [*_crossed(blaming)]


def _crossed(blaming: Sequence[HangFinding]) -> Iterator[HangFinding]:
    """Yields one finding of a cycle: ranks that wait for each other in several operations."""
    for finding in blaming:
        other = next((each for each in blaming if each is not finding and _explains(each, finding)), None)
        if other is None:
            continue
        rank = min(set(finding.ranks) & set(other.waiting))
        values = {
            "waiting": describe_ranks(finding.waiting),
            "missing": str(rank),
            **{name: finding.values.get(name, "") for name in ("op", "group", "place")},
            **{f"{name}_of_missing": other.values.get(name, "") for name in ("op", "group", "place")},
        }
        text = (
            f"flight recorder: rank {values['waiting']} waits in {values['op']} of group {values['group']}, called at "
            f"{values['place']}, for rank {rank}, which waits in {values['op_of_missing']} of group "
            f"{values['group_of_missing']}, called at {values['place_of_missing']}"
        )
        yield replace(finding, rule=_CROSSED, text=text, values=values, ranks=(rank,))
        return


def _gaps(groups: Sequence[ProcessGroup], missing: set[int]) -> Iterator[str]:
    without = missing.union(*(group.without_dump for group in groups))
    if without:
        yield f"flight recorder: no dump of rank {describe_ranks(without)}"
    for group in groups:
        lost = [rank for rank, history in group.histories.items() if history.newest is None and not history.transfers]
        if lost:
            yield (
                f"flight recorder: the buffer of rank {describe_ranks(lost)} was full, and no entry of group "
                f"{describe_group(group)} is left: set a larger TORCH_FR_BUFFER_SIZE"
            )
