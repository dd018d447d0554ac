"""Orders candidates: what others follow from comes before what follows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from windlass.diagnose.diagnosis import Certainty
from windlass.diagnose.failures.candidates import CauseCandidate, order_of
from windlass.diagnose.failures.failure_rules import RuleRole

_STRENGTH = {Certainty.CERTAIN: 0, Certainty.LIKELY: 1, Certainty.POSSIBLE: 2}
_NO_REASON = frozenset(
    {
        "flight-missing-rank",
        "flight-unmatched-transfer",
        "flight-rank-without-dump",
        "flight-stalled-collective",
        "flight-group-of-unknown-members",
        "hang-detected",
        "heartbeat-rank-behind",
        "stack-rank-outside-collective",
        "nccl-silent-within-one-node",
        "nccl-silent-over-infiniband",
        "nccl-silent-over-sockets",
        "nccl-silent-in-bootstrap",
        "nccl-tests-silent",
    }
)
"""Rules that tell which rank the others wait for, or where a log ends, and not why: every other root explains more."""
_LATEST_PROOF_MS = 120_000
"""A cause that is reported this long after a failure did not cause it: kernels and launchers report within minutes."""


def rank_candidates(candidates: Sequence[CauseCandidate]) -> list[CauseCandidate]:
    """Candidates from the best explanation of the failure to the worst.

    A root precedes a consequence, an unbeaten rule a beaten one, a failure that ended the program one that it
    survived, the reason of a wait the rank that is waited for, a certain rule a possible one, and then the earlier
    failure the later one.
    """
    beaten = beaten_rules(candidates)
    return sorted(candidates, key=lambda each: _key(each, beaten))


def beaten_rules(candidates: Sequence[CauseCandidate]) -> set[str]:
    """Ids of the candidates that follow from another candidate."""
    by_id = {each.rule.id: each for each in candidates}
    return {
        other
        for each in candidates
        for other in each.rule.beats & by_id.keys()
        if not _is_too_late(each, by_id[other]) and not each.is_survived
    }


def _key(candidate: CauseCandidate, beaten: set[str]) -> tuple[object, ...]:
    return (
        candidate.rule.role is not RuleRole.ROOT,
        candidate.rule.id in beaten,
        candidate.is_survived,
        candidate.rule.id in _NO_REASON,
        _STRENGTH[candidate.certainty],
        order_of(candidate.first),
        candidate.rule.id,
    )


def _is_too_late(cause: CauseCandidate, effect: CauseCandidate) -> bool:
    """Whether the cause was first reported long after the effect, on aligned clocks."""
    if cause.first.time is None or effect.first.time is None:
        return False
    return cause.first.time > effect.first.time + _LATEST_PROOF_MS


def causes_of(candidates: Sequence[CauseCandidate]) -> Mapping[str, CauseCandidate]:
    """The best candidate of each cause, in order."""
    found: dict[str, CauseCandidate] = {}
    for each in candidates:
        found.setdefault(each.rule.cause, each)
    return found
