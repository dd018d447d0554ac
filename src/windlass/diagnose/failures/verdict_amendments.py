"""Adds to a verdict what the comparison of the ranks tells: the late rank, different operations, ranks that lack."""

from __future__ import annotations

from dataclasses import replace

from windlass.diagnose.diagnosis import Advice, Certainty, OtherCause, RootCause
from windlass.diagnose.failures.candidates import BARE_END
from windlass.diagnose.failures.divergent_operations import Divergence
from windlass.diagnose.failures.failure_rules import LOST_PEERS, TIMEOUTS, FailureRule, load_rules
from windlass.diagnose.failures.laggard import WORK_NUMBERS, Laggard
from windlass.diagnose.failures.next_commands import fill_command
from windlass.diagnose.failures.rank_comparison import RankComparison
from windlass.diagnose.failures.verdict_texts import describe_ranks
from windlass.diagnose.failures.world_size import COUNTED, KEYED, OversizedWorld

MOST_ALTERNATIVES = 3
_DIVERGENT = "nccl-divergent-collectives"
_STALLED = "nccl-transport-stalled"
_PLAIN_TIMEOUT = "nccl-watchdog-timeout"
"""Rule of a timeout about which nothing else is known."""
_ALL_JOINED = "The processes of all logs have joined: the others were not started, or their logs are not here."
_LONGEST_LINE = 300
"""Characters of a program's last line in a verdict."""
_WITHOUT_RANK = frozenset({"gloo-timeout", "gloo-peer-closed"})
"""Rules whose verdict is of little use without the rank that is missing."""


def amend_verdict(verdict: RootCause, ranks: RankComparison) -> RootCause:
    """The verdict with the findings about all ranks that concern its rule."""
    is_wait = verdict.rule in TIMEOUTS
    if ranks.laggard and (is_wait or _concerns(ranks.laggard, verdict.rule)):
        verdict = _with_laggard(verdict, ranks.laggard)
    if is_wait and ranks.divergence:
        verdict = _with_divergence(verdict, ranks.divergence)
    elif verdict.rule == _PLAIN_TIMEOUT and ranks.is_stalled and not ranks.laggard:
        verdict = _with_stall(verdict)
    elif verdict.rule in _WITHOUT_RANK and not ranks.laggard:
        verdict = replace(verdict, text=f"{verdict.text} {_missing_ranks(ranks.silent)}")
    if verdict.rule == BARE_END and verdict.rank is not None and (line := ranks.last_words.get(verdict.rank)):
        verdict = replace(verdict, text=f"{verdict.text} The last line of rank {verdict.rank}: {line[:_LONGEST_LINE]}")
    if verdict.rule in (COUNTED, KEYED) and ranks.oversized_world:
        verdict = _with_oversized_world(verdict, ranks.oversized_world)
    elif verdict.rule == COUNTED and ranks.have_all_joined:
        verdict = replace(verdict, text=f"{verdict.text} {_ALL_JOINED}", advice=Advice.STOP)
    return verdict


def _concerns(laggard: Laggard, rule: str) -> bool:
    """Whether a message that is no timeout follows from this rank: a lost connection, or the end of the others."""
    return (laggard.has_ended and rule in LOST_PEERS) or (laggard.is_proven and rule == WORK_NUMBERS)


def _with_laggard(verdict: RootCause, laggard: Laggard) -> RootCause:
    """The verdict on a wait, about the ranks that the others waited for."""
    start = "A collective did not complete" if laggard.is_proven else verdict.text.rstrip(".")
    text = f"{start}. {_subject(laggard)}: {laggard.reason}."
    evidence = tuple(dict.fromkeys((*verdict.evidence, *laggard.evidence)))
    found = replace(verdict, text=text, rank=laggard.rank, node=laggard.node, evidence=evidence)
    if laggard.is_proven:
        found = _with_rule(found, load_rules()[_PLAIN_TIMEOUT])
    if not laggard.cause:
        return found
    found = replace(found, cause=laggard.cause, text=f"{text} By its last line it {laggard.activity}.")
    rule = next((each for each in load_rules().values() if each.cause == laggard.cause), None)
    return replace(found, fix=rule.fix, command=_command(rule, found)) if rule else found


def _subject(laggard: Laggard) -> str:
    if len(laggard.ranks) > 1:
        return f"Ranks {describe_ranks(laggard.ranks)} are the late ones"
    return f"Rank {laggard.rank} " + ("ended first" if laggard.has_ended else "is the late one")


def _with_rule(verdict: RootCause, rule: FailureRule) -> RootCause:
    """The verdict under the rule of a late rank, which the numbers of work prove."""
    return replace(
        verdict,
        rule=rule.id,
        cause=rule.cause,
        certainty=Certainty.LIKELY,
        scope=rule.scope,
        advice=rule.advice,
        why=rule.why,
        fix=rule.fix,
        command=_command(rule, verdict),
        decide=rule.decide,
    )


def _command(rule: FailureRule, verdict: RootCause) -> str:
    return fill_command(rule.command, {}, verdict.rank, verdict.node)


def _missing_ranks(silent: tuple[int, ...]) -> str:
    if not silent:
        return "No line tells which rank is missing."
    return f"One of ranks {describe_ranks(silent)} is missing: they do not report the loss."


def _with_divergence(verdict: RootCause, divergence: Divergence) -> RootCause:
    """The verdict on a timeout whose ranks wait in different operations: as its cause, or as another cause."""
    rule = next(each for each in load_rules().values() if each.cause == _DIVERGENT)
    if divergence.is_same_number:
        text = f"{verdict.text.rstrip('.')}. The ranks call different collectives: {divergence.text}."
        return replace(verdict, cause=_DIVERGENT, text=text, fix=rule.fix, command=_command(rule, verdict))
    other = OtherCause(rule.id, _DIVERGENT, f"The ranks call different collectives: {divergence.text}.", rule.decide)
    return replace(verdict, alternatives=(other, *verdict.alternatives[: MOST_ALTERNATIVES - 1]))


def _with_stall(verdict: RootCause) -> RootCause:
    """The verdict on a timeout of all ranks in one collective: no rank is late, and the data did not arrive."""
    rule = load_rules()["nccl-desync-all-joined"]
    start = verdict.text.partition(":")[0].rstrip(".")
    text = f"{start}: all ranks had entered it, and a GPU or the network did not finish it."
    other = OtherCause(verdict.rule, verdict.cause, "A rank is late, stuck or gone.", verdict.decide)
    alternatives = (other, *verdict.alternatives[: MOST_ALTERNATIVES - 1])
    return replace(
        verdict, cause=_STALLED, text=text, fix=rule.fix, command=_command(rule, verdict), alternatives=alternatives
    )


def _with_oversized_world(verdict: RootCause, world: OversizedWorld) -> RootCause:
    """The verdict on a wait for ranks that were never started."""
    ranks = f"{world.started} ranks were" if world.started > 1 else "1 rank was"
    text = f"WORLD_SIZE is too large: {ranks} started, and in the store {world.detail}."
    other = OtherCause(verdict.rule, verdict.cause, verdict.text, verdict.decide)
    return replace(
        verdict,
        cause="wrong-world-size",
        text=text,
        certainty=Certainty.LIKELY if world.is_proven else Certainty.POSSIBLE,
        advice=Advice.STOP,
        fix=f"Set WORLD_SIZE to {world.started}, or start as many ranks as it says (--nnodes, --nproc-per-node).",
        command="env | grep -E 'WORLD_SIZE|RANK|MASTER'",
        decide="A log of a rank above these: with one, that rank was started, and does not reach the store.",
        alternatives=(other, *verdict.alternatives[: MOST_ALTERNATIVES - 1]),
    )
