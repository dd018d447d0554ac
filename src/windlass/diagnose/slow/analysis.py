"""Divides the time of a job between stragglers, data, communication, checkpoints and computation.

The time that ranks wait for each other lies in phases with collectives: a rank that comes last waits least there, and
spends the difference in a phase of its own. The rank with the least waiting is therefore the one that others wait for.
"""

from __future__ import annotations

import statistics
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from windlass.diagnose.slow.rank_times import OUTSIDE, RankTimes
from windlass.diagnose.steps import CheckStep, State, absent, ok, unseen

_COLLECTIVE = ("backward", "pipeline", "optimizer", "agree")
"""Phases in which a rank may wait for others."""
_OWN = ("data", "forward", OUTSIDE, "save", "evaluate")
"""Phases that a rank spends without others."""
_WORTH, _LARGE = 0.10, 0.25
"""Parts of the run from which a cause is a warning, and wrong."""
_TOGETHER = 0.25
"""Ranks whose waiting exceeds the least by less than this part of the largest are as late as the latest."""
_BACKWARD_FACTOR = 2.0
"""Time of a backward pass as a multiple of the forward pass, in operations of dense layers."""
_LOW_CLOCK = 0.9
_SHORT_S = 5.0
_PHASE_TEXTS = {
    "data": "waits for its samples",
    "forward": "computes longer",
    OUTSIDE: "spends time in the script's own code between calls of windlass.train",
    "save": "writes checkpoints longer",
    "evaluate": "evaluates longer",
}


@dataclass(frozen=True, slots=True)
class Straggler:
    """Ranks that the others wait for. `share`: median part of the run that the others wait; `phase`: what they do then.

    `excess`: part of the run that they spend in `phase` above the others' median.
    """

    ranks: tuple[RankTimes, ...]
    share: float
    phase: str
    excess: float


def find_straggler(ranks: Sequence[RankTimes]) -> Straggler | None:
    """Returns the ranks that others wait for during at least a tenth of the run; None if there are none."""
    waits = _waits(ranks)
    least, most = min(waits, default=0.0), max(waits, default=0.0)
    limit = least + _TOGETHER * (most - least)
    late = [rank for rank, wait in zip(ranks, waits, strict=True) if wait <= limit]
    others = [rank for rank, wait in zip(ranks, waits, strict=True) if wait > limit]
    if not others or len(late) > len(others):
        return None
    share = statistics.median(wait for wait in waits if wait > limit) - least
    if share < _WORTH:
        return None
    excess = {
        phase: statistics.median(rank.part(phase) for rank in late)
        - statistics.median(rank.part(phase) for rank in others)
        for phase in _OWN
    }
    phase = max(excess, key=lambda each: excess[each])
    return Straggler(tuple(late), share, phase, excess[phase])


def _waits(ranks: Sequence[RankTimes]) -> list[float]:
    """Returns for each rank the part of its run in collectives above the rank that is fastest in them."""
    base = {phase: min((rank.part(phase) for rank in ranks), default=0.0) for phase in _COLLECTIVE}
    return [sum(rank.part(phase) - base[phase] for phase in _COLLECTIVE) for rank in ranks]


def analyze_slowness(ranks: Sequence[RankTimes], all_ranks: int) -> tuple[CheckStep, ...]:
    """Returns the steps: one for each cause with its share, the largest first, then the coverage of the telemetry."""
    if not ranks:
        text = "no rank reports the times of its phases: they come with windlass.train, after the first second"
        return (unseen("slow.telemetry", text, "use windlass.train, or profile a rank: torch.profiler"),)
    straggler = find_straggler(ranks)
    late = {rank.rank for rank in straggler.ranks} if straggler else set()
    others = [rank for rank in ranks if rank.rank not in late]
    causes = [
        _judge_straggler(straggler, len(ranks)),
        _judge_part("slow.data", others, "data", len(ranks)),
        _judge_part("slow.checkpoint", others, "save", len(ranks)),
        _judge_part("slow.evaluation", others, "evaluate", len(ranks)),
        _judge_part("slow.outside", others, OUTSIDE, len(ranks)),
        _judge_communication(ranks),
        _judge_clocks(ranks),
        _compute_share(ranks),
    ]
    causes.sort(key=lambda step: -(step.share or 0.0) if step.state is not State.OK else 1.0 - (step.share or 0.0))
    return (*causes, *_judge_coverage(ranks, all_ranks))


def _judge(name: str, share: float, text: str, fix: str, evidence: tuple[str, ...] = ()) -> CheckStep:
    """Returns a step whose state follows from its share."""
    shown = f"{share:.0%} of the run: {text}"
    if share < _WORTH:
        return CheckStep(name, State.OK, shown, share=share)
    return CheckStep(name, State.WRONG if share >= _LARGE else State.WARNING, shown, fix, evidence, share=share)


def _judge_straggler(straggler: Straggler | None, count: int) -> CheckStep:
    name = "slow.straggler"
    if count < 2:
        return absent(name, "one rank reports, so none can be compared")
    if straggler is None:
        return CheckStep(name, State.OK, "no rank keeps the others waiting", share=0.0)
    numbers = ", ".join(str(rank.rank) for rank in straggler.ranks[:16])
    nodes = sorted({rank.node for rank in straggler.ranks})
    text = f"others wait for rank {numbers}, which {_PHASE_TEXTS[straggler.phase]} ({straggler.excess:.0%} more)"
    fix = f"windlass doctor host --burn on {', '.join(nodes) or 'its node'}; compare with a run without that node"
    if straggler.phase == "data":
        fix = f"check storage and CPUs of {', '.join(nodes) or 'its node'}, and whether its shard of the data is larger"
    elif straggler.phase == OUTSIDE:
        fix = "look for code that only this rank runs: logging, metrics, a file system call, a print of a tensor"
    return _judge(name, straggler.share, text, fix, (_describe(straggler.ranks, count),))


def _describe(ranks: Sequence[RankTimes], count: int) -> str:
    """Returns one line about some of `count` ranks: their number, and their largest phases by the median."""
    phases = dict.fromkeys(phase for rank in ranks for phase in rank.parts)
    medians = {phase: statistics.median(rank.part(phase) for rank in ranks) for phase in phases}
    largest = sorted(medians.items(), key=lambda item: -item[1])[:5]
    shown = ", ".join(f"{phase} {part:.0%}" for phase, part in largest if part >= 0.01)
    return f"{len(ranks)} of {count} ranks: {shown}"


def _describe_range(ranks: Sequence[RankTimes], phase: str) -> str:
    """Returns the end of the line of `_describe`: the ranks with the least and the most time in a phase."""
    least, most = (choose(ranks, key=lambda rank: rank.part(phase)) for choose in (min, max))
    if f"{least.part(phase):.0%}" == f"{most.part(phase):.0%}":
        return ""
    return f"; {phase} from {least.part(phase):.0%} ({_place(least)}) to {most.part(phase):.0%} ({_place(most)})"


def _place(rank: RankTimes) -> str:
    return f"rank {rank.rank} on {rank.node or 'its node'}"


_FIXES = {
    "data": "more loader workers (run.data(workers=…)), faster or local storage, prepared samples; watch the CPUs",
    "save": "save less often: run.checkpoint(every=…); check the storage with windlass doctor host --burn",
    "evaluate": "evaluate less often, or on fewer samples",
    OUTSIDE: "look for work between batches: metrics, logging, .item() on a GPU tensor",
}
_TEXTS = {
    "data": "waiting for samples",
    "save": "waiting for checkpoints",
    "evaluate": "evaluation",
    OUTSIDE: "the script's own code between batches",
}


def _judge_part(name: str, ranks: Sequence[RankTimes], phase: str, count: int) -> CheckStep:
    """Judges a phase on the ranks that are not late: the excess of the late ones counts as straggling."""
    share = statistics.median(rank.part(phase) for rank in ranks)
    line = _describe(ranks, count) + _describe_range(ranks, phase)
    return _judge(name, share, _TEXTS[phase], _FIXES[phase], (line,))


def _judge_communication(ranks: Sequence[RankTimes]) -> CheckStep:
    """Estimates exposed communication: the consensus, and a backward pass beyond twice the forward pass.

    Taken from the rank that waits least, so that waiting for others does not count.
    """
    name = "slow.communication"
    if len(ranks) < 2:
        return absent(name, "one rank reports")
    waits = _waits(ranks)
    last = min(zip(waits, ranks, strict=True), key=lambda pair: pair[0])[1]
    consensus = min(rank.part("agree") for rank in ranks)
    backward = (
        max(0.0, last.part("backward") - _BACKWARD_FACTOR * last.part("forward")) if last.part("forward") else 0.0
    )
    text = (
        "communication between ranks, estimated from a backward pass longer than twice the forward pass "
        "(recomputation of activations has the same sign)"
    )
    fix = "compare with windlass scaling --ranks 1; larger micro-batches or accumulation; check NCCL_DEBUG=INFO"
    return _judge(name, consensus + backward, text, fix)


def _judge_clocks(ranks: Sequence[RankTimes]) -> CheckStep:
    name = "slow.clocks"
    known = [rank for rank in ranks if rank.clock]
    if not known:
        return absent(name, "no rank reports the clock of a GPU")
    median = statistics.median(rank.clock or 0.0 for rank in known)
    low = [rank for rank in known if rank.is_slowed or (rank.clock or 0.0) < _LOW_CLOCK * median]
    if not low:
        return ok(name, f"SM clocks are near {median:.0f} MHz, none is lowered by heat or power")
    share = max(
        1 - (rank.clock or 0.0) / max(median, rank.max_clock or 0.0 if rank.is_slowed else median) for rank in low
    )
    lowest = min(low, key=lambda rank: rank.clock or 0.0)
    clock = f"{lowest.clock:.0f} of {lowest.max_clock or 0:.0f} MHz"
    line = f"{len(low)} of {len(known)} ranks; the lowest is {_place(lowest)} with {clock}"
    cause = "heat or power" if any(rank.is_slowed for rank in low) else "an unknown reason"
    fix = "windlass doctor host on these nodes; check fans, inlet temperature, power supplies, application clocks"
    state = State.WRONG if any(rank.is_slowed for rank in low) else State.WARNING
    return CheckStep(
        name, state, f"{len(low)} GPUs have low clocks because of {cause}", fix, (line,), share=max(0.0, share)
    )


def _compute_share(ranks: Sequence[RankTimes]) -> CheckStep:
    share = statistics.median(rank.part("forward", "backward", "pipeline", "optimizer") for rank in ranks)
    text = f"{share:.0%} of the run: forward, backward and optimizer, with the waiting inside of them"
    return CheckStep("slow.compute", State.OK, text, share=share)


def _judge_coverage(ranks: Sequence[RankTimes], all_ranks: int) -> Iterator[CheckStep]:
    seconds = statistics.median(rank.seconds for rank in ranks)
    text = f"{len(ranks)} of {all_ranks} ranks report, {seconds:.0f} s since the first step"
    if seconds < _SHORT_S:
        yield CheckStep("slow.telemetry", State.WARNING, f"{text}: too short to judge", "ask again later")
    elif len(ranks) < all_ranks:
        yield unseen(
            "slow.telemetry", f"{text}: a straggler among the others is not seen", "on Kubernetes: windlass top"
        )
    else:
        yield ok("slow.telemetry", text)
