"""Describes the best candidate as the verdict, and the others as alternatives."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from windlass.diagnose.diagnosis import Advice, Certainty, EvidenceLine, OtherCause, RootCause
from windlass.diagnose.failures.candidate_order import beaten_rules, causes_of
from windlass.diagnose.failures.candidates import CauseCandidate, weaken
from windlass.diagnose.failures.divergent_operations import Divergence
from windlass.diagnose.failures.evidence import Fact
from windlass.diagnose.failures.failure_rules import FailureRule, RuleRole, load_rules, xid_actions
from windlass.diagnose.failures.laggard import TIMEOUTS, Laggard
from windlass.diagnose.failures.line_prefix import read_prefixes
from windlass.diagnose.failures.verdict_texts import fill_text
from windlass.jobs.secret_masks import mask_secrets

_DIVERGENT = "nccl-divergent-collectives"
_STALLED = "nccl-transport-stalled"
_PLAIN_TIMEOUT = "nccl-watchdog-timeout"
"""Rule of a timeout about which nothing else is known."""
_MOST_EVIDENCE = 6
_MOST_ALTERNATIVES = 3
_LONGEST_LINE = 400
_END_ONLY = frozenset({"exit-status", "repeated-end"})
"""Rules that tell how a process ended, and not why: no other causes beside a certain one."""
_XID_ADVICE = {
    "ignore": Advice.RETRY,
    "retry": Advice.RETRY,
    "reset": Advice.AVOID_NODE,
    "restart-host": Advice.AVOID_NODE,
    "replace": Advice.AVOID_NODE,
}


def build_verdict(
    ranked: Sequence[CauseCandidate],
    laggard: Laggard | None,
    divergence: Divergence | None,
    *,
    is_stalled: bool,
    show_secrets: bool,
) -> RootCause:
    """The verdict of candidates in the order of `rank_candidates`. Secrets in all texts are masked."""
    best = ranked[0]
    mask = str if show_secrets else mask_secrets
    verdict = _described(best, ranked, mask)
    if best.rule.id in TIMEOUTS and laggard:
        verdict = _with_laggard(verdict, laggard)
    if best.rule.id in TIMEOUTS and divergence:
        verdict = _with_divergence(verdict, divergence)
    elif best.rule.id == _PLAIN_TIMEOUT and is_stalled and not laggard:
        verdict = _with_stall(verdict)
    return _shortened(verdict if show_secrets else _masked(verdict))


def _described(best: CauseCandidate, ranked: Sequence[CauseCandidate], mask: Callable[[str], str]) -> RootCause:
    rule, place = best.rule, _best_fact(best)
    return RootCause(
        rule=rule.id,
        cause=rule.cause,
        text=_text(rule, place, mask),
        certainty=_certainty(best, ranked),
        scope=rule.scope,
        advice=_advice(best, place),
        why=_explain(best, place),
        fix=rule.fix,
        command=rule.command,
        decide=rule.decide,
        rank=place.rank,
        node=place.node,
        time=place.time,
        evidence=tuple(_evidence(best, ranked)),
        alternatives=tuple(_alternatives(best, ranked, mask)),
    )


def _text(rule: FailureRule, fact: Fact, mask: Callable[[str], str]) -> str:
    values = {name: mask(value) for name, value in fact.values.items()}
    return fill_text(rule.verdict, values, fact.rank, fact.node)


def _best_fact(candidate: CauseCandidate) -> Fact:
    """The first fact, or where it has no values the first one of its rank that has some."""
    first = candidate.first
    if first.values or "{" not in candidate.rule.verdict:
        return first
    return next((fact for fact in candidate.facts if fact.values and fact.rank in (first.rank, None)), first)


def _certainty(best: CauseCandidate, ranked: Sequence[CauseCandidate]) -> Certainty:
    """The rule's certainty; weaker where an equally strong rule names another cause, or the program survived it."""
    beaten = beaten_rules(ranked)
    rivals = [
        each
        for each in ranked[1:]
        if each.rule.role is RuleRole.ROOT
        and each.rule.id not in beaten
        and each.certainty == best.certainty
        and each.rule.cause != best.rule.cause
    ]
    is_consequence = best.rule.role is RuleRole.CONSEQUENCE
    return weaken(best.certainty) if rivals or best.is_survived or is_consequence else best.certainty


def _advice(best: CauseCandidate, place: Fact) -> Advice:
    """The rule's advice; for an Xid, that of the table."""
    known = xid_actions().get(place.values["xid"]) if "xid" in place.values else None
    return _XID_ADVICE[known[1]] if known and best.rule.advice is not Advice.STOP else best.rule.advice


def _explain(best: CauseCandidate, place: Fact) -> str:
    known = xid_actions().get(place.values["xid"]) if "xid" in place.values else None
    return f"{known[0]} {best.rule.why}" if known else best.rule.why


def _evidence(best: CauseCandidate, ranked: Sequence[CauseCandidate]) -> list[EvidenceLine]:
    """Lines of the verdict's rule, then the first line of each rule that follows from it."""
    own = _without_copies(best.facts)[: _MOST_EVIDENCE // 2]
    following = [each.first for each in ranked[1:] if each.rule.id in best.rule.beats]
    facts = _without_copies([*own, *following])
    lines = {(fact.evidence.source, fact.evidence.line): fact.evidence for fact in facts}
    return [*lines.values()][:_MOST_EVIDENCE]


def _without_copies(facts: Sequence[Fact]) -> list[Fact]:
    """The facts without the same message about the same rank in another log: every agent prints how its run failed."""
    sources: dict[tuple[int | None, str | None, str], str] = {}
    found = []
    for fact in facts:
        report = (fact.rank, fact.node, read_prefixes(fact.evidence.text).message)
        if sources.setdefault(report, fact.evidence.source) == fact.evidence.source:
            found.append(fact)
    return found


def _alternatives(
    best: CauseCandidate, ranked: Sequence[CauseCandidate], mask: Callable[[str], str]
) -> list[OtherCause]:
    """Other causes that are not explained by the verdict."""
    beaten = beaten_rules(ranked)
    others = [each for each in causes_of(ranked[1:]).values() if each.rule.cause != best.rule.cause]
    kept = [each for each in others if each.rule.role is RuleRole.ROOT and each.rule.id not in beaten]
    if best.certainty is Certainty.CERTAIN:
        kept = [each for each in kept if each.rule.id not in _END_ONLY]
    return [
        OtherCause(
            each.rule.id,
            each.rule.cause,
            _text(each.rule, each.first, mask),
            each.rule.decide or f"{each.first.evidence.source}:{each.first.evidence.line} and the lines around it",
        )
        for each in kept[:_MOST_ALTERNATIVES]
    ]


def _with_laggard(verdict: RootCause, laggard: Laggard) -> RootCause:
    """The verdict on a timeout, about the rank that the others waited for."""
    text = f"{verdict.text.rstrip('.')}. Rank {laggard.rank} is the late one: {laggard.reason}."
    if not laggard.cause:
        return replace(verdict, text=text, rank=laggard.rank, node=laggard.node)
    last = EvidenceLine(laggard.source, 0, laggard.last_line)
    rule = next((each for each in load_rules().values() if each.cause == laggard.cause), None)
    return replace(
        verdict,
        cause=laggard.cause,
        text=f"{text} By its last line it {laggard.activity}.",
        rank=laggard.rank,
        node=laggard.node,
        fix=rule.fix if rule else verdict.fix,
        command=rule.command if rule else verdict.command,
        evidence=(*verdict.evidence, last),
    )


def _with_divergence(verdict: RootCause, divergence: Divergence) -> RootCause:
    """The verdict on a timeout whose ranks wait in different operations: as its cause, or as another cause."""
    rule = next(each for each in load_rules().values() if each.cause == _DIVERGENT)
    if divergence.is_same_number:
        text = f"{verdict.text.rstrip('.')}. The ranks call different collectives: {divergence.text}."
        return replace(verdict, cause=_DIVERGENT, text=text, fix=rule.fix, command=rule.command)
    other = OtherCause(rule.id, _DIVERGENT, f"The ranks call different collectives: {divergence.text}.", rule.decide)
    return replace(verdict, alternatives=(other, *verdict.alternatives[: _MOST_ALTERNATIVES - 1]))


def _with_stall(verdict: RootCause) -> RootCause:
    """The verdict on a timeout of all ranks in one collective: no rank is late, and the data did not arrive."""
    rule = load_rules()["nccl-desync-all-joined"]
    start = verdict.text.partition(":")[0].rstrip(".")
    text = f"{start}: all ranks had entered it, and a GPU or the network did not finish it."
    other = OtherCause(verdict.rule, verdict.cause, "A rank is late, stuck or gone.", verdict.decide)
    alternatives = (other, *verdict.alternatives[: _MOST_ALTERNATIVES - 1])
    return replace(verdict, cause=_STALLED, text=text, fix=rule.fix, command=rule.command, alternatives=alternatives)


def _shortened(verdict: RootCause) -> RootCause:
    """The verdict with the start of each line of evidence. Secrets are masked before: a part of one is not known."""
    return replace(verdict, evidence=tuple(replace(line, text=_clipped(line.text)) for line in verdict.evidence))


def _clipped(text: str) -> str:
    return text if len(text) <= _LONGEST_LINE else f"{text[: _LONGEST_LINE - 1]}…"


def _masked(verdict: RootCause) -> RootCause:
    return replace(
        verdict,
        text=mask_secrets(verdict.text),
        evidence=tuple(replace(line, text=mask_secrets(line.text)) for line in verdict.evidence),
        alternatives=tuple(replace(other, text=mask_secrets(other.text)) for other in verdict.alternatives),
    )
