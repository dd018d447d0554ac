"""Compares what the ranks of a job report: which one the others waited for, and whether they differ."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from windlass.diagnose.failures.candidates import BARE_END
from windlass.diagnose.failures.divergent_operations import Divergence, find_divergence, is_joined_by_all
from windlass.diagnose.failures.evidence import Fact
from windlass.diagnose.failures.failure_rules import LOST_PEERS, TIMEOUTS
from windlass.diagnose.failures.laggard import Laggard, find_laggard, last_words
from windlass.diagnose.failures.log_scan import LogFindings
from windlass.diagnose.failures.world_size import OversizedWorld, find_oversized_world, have_all_logs_joined


@dataclass(frozen=True, slots=True)
class RankComparison:
    """Findings that no message of one rank tells alone."""

    laggard: Laggard | None = None
    divergence: Divergence | None = None
    is_stalled: bool = False
    """Whether all ranks timed out in one operation."""
    oversized_world: OversizedWorld | None = None
    have_all_joined: bool = False
    """Whether the processes of all logs have joined the store that waits for more."""
    silent: tuple[int, ...] = ()
    """Known ranks that report neither a timeout nor a lost connection."""
    last_words: Mapping[int, str] = field(default_factory=dict)
    """The last line of each rank of which only the exit code is known."""


def compare_ranks(facts: Sequence[Fact], logs: Sequence[LogFindings], expected_ranks: int | None) -> RankComparison:
    """Compares the ranks by their facts. `expected_ranks`: number of ranks of the job, where it is known."""
    known = set(range(expected_ranks or 0)).union(*(log.ranks for log in logs))
    timeouts = [fact for fact in facts if fact.rule in TIMEOUTS]
    reporters = {fact.rank for fact in facts if fact.rule in TIMEOUTS | LOST_PEERS}
    ends = [fact for fact in facts if fact.rule == BARE_END]
    said = {fact.evidence.text.strip() for fact in ends}
    return RankComparison(
        find_laggard(facts, logs, known),
        find_divergence(timeouts),
        is_joined_by_all(timeouts, known),
        find_oversized_world(facts, logs, expected_ranks),
        have_all_logs_joined(facts, logs, expected_ranks),
        tuple(sorted(known - reporters)),
        {rank: last_words(rank, logs, said) for fact in ends if (rank := fact.rank) is not None},
    )
