"""Describes the best candidate as the verdict, and the others as alternatives."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from windlass.diagnose.diagnosis import Advice, Certainty, EvidenceLine, OtherCause, RootCause
from windlass.diagnose.failures.candidate_order import beaten_rules, causes_of
from windlass.diagnose.failures.candidates import BARE_END, CauseCandidate, weaken
from windlass.diagnose.failures.evidence import Fact
from windlass.diagnose.failures.failure_rules import RuleRole, xid_actions
from windlass.diagnose.failures.line_prefix import read_prefixes
from windlass.diagnose.failures.next_commands import command_for
from windlass.diagnose.failures.rank_comparison import RankComparison
from windlass.diagnose.failures.verdict_amendments import MOST_ALTERNATIVES, amend_verdict
from windlass.diagnose.failures.verdict_texts import fill_text
from windlass.jobs.secret_masks import mask_secrets

_OF_PROGRAM = "user-code-error"
_MOST_EVIDENCE = 6
_LONGEST_LINE = 400
_END_ONLY = frozenset({BARE_END, "repeated-end"})
"""Rules that tell how a process ended, and not why: no other causes beside a certain one."""
_XID_ADVICE = {
    "ignore": Advice.RETRY,
    "retry": Advice.RETRY,
    "reset": Advice.AVOID_NODE,
    "restart-host": Advice.AVOID_NODE,
    "replace": Advice.AVOID_NODE,
}


def build_verdict(ranked: Sequence[CauseCandidate], comparison: RankComparison, *, show_secrets: bool) -> RootCause:
    """The verdict of candidates in the order of `rank_candidates`. Secrets in all texts are masked."""
    mask = str if show_secrets else mask_secrets
    verdict = amend_verdict(_described(ranked[0], ranked, mask), comparison)
    return _shortened(verdict if show_secrets else _masked(verdict))


def _described(best: CauseCandidate, ranked: Sequence[CauseCandidate], mask: Callable[[str], str]) -> RootCause:
    rule, place = best.rule, _best_fact(best)
    return RootCause(
        rule=rule.id,
        cause=rule.cause,
        text=_filled(rule.verdict, place, mask),
        certainty=_certainty(best, ranked),
        scope=rule.scope,
        advice=_advice(best, place),
        why=_explain(best, place),
        fix=_filled(rule.fix, place, mask),
        command=command_for(rule.command, place),
        decide=rule.decide,
        rank=place.rank,
        node=place.node,
        time=place.time,
        evidence=tuple(_evidence(best, ranked)),
        alternatives=tuple(_alternatives(best, ranked, mask)),
    )


def _filled(text: str, fact: Fact, mask: Callable[[str], str]) -> str:
    values = {name: mask(value) for name, value in fact.values.items()}
    return fill_text(text, values, fact.rank, fact.node)


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
    """Lines of the verdict's rule, then the first line of each rule that follows from it.

    An error of the program has its frame as the second line.
    """
    own = _without_copies(best.facts)[: _MOST_EVIDENCE // 2]
    following = [each.first for each in ranked[1:] if each.rule.id in best.rule.beats]
    facts = _without_copies([*own, *following])
    found = [fact.evidence for fact in facts]
    if best.rule.cause == _OF_PROGRAM and (frame := _best_fact(best).frame):
        found.insert(1, frame)
    lines = {(line.source, line.line): line for line in found}
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
    """Other causes that are not explained by the verdict, then those that print the same message."""
    beaten = beaten_rules(ranked)
    others = [each for each in causes_of(ranked[1:]).values() if each.rule.cause != best.rule.cause]
    kept = [each for each in others if each.rule.role is RuleRole.ROOT and each.rule.id not in beaten]
    kept = [each for each in kept if each.rule.id != BARE_END or _is_unexplained(each, ranked)]
    if best.certainty is Certainty.CERTAIN:
        kept = [each for each in kept if each.rule.id not in _END_ONLY]
    found = [
        OtherCause(
            each.rule.id,
            each.rule.cause,
            _filled(each.rule.verdict, each.first, mask),
            each.rule.decide or f"{each.first.evidence.source}:{each.first.evidence.line} and the lines around it",
        )
        for each in kept
    ]
    named = {best.rule.cause, *(other.cause for other in found)}
    return [*found, *(other for other in best.rule.others if other.cause not in named)][:MOST_ALTERNATIVES]


def _is_unexplained(end: CauseCandidate, ranked: Sequence[CauseCandidate]) -> bool:
    """Whether an exit code is that of a rank about which no message tells anything else."""
    messages = [each for each in ranked if each.rule.id not in {BARE_END, *end.rule.beats}]
    told = {fact.rank for each in messages for fact in each.facts}
    return None not in told and any(fact.rank is not None and fact.rank not in told for fact in end.facts)


def _shortened(verdict: RootCause) -> RootCause:
    """The verdict with the start of each line of evidence. Secrets are masked before: a part of one is not known."""
    return replace(verdict, evidence=tuple(replace(line, text=_clipped(line.text)) for line in verdict.evidence))


def _clipped(text: str) -> str:
    return text if len(text) <= _LONGEST_LINE else f"{text[: _LONGEST_LINE - 1]}…"


def _masked(verdict: RootCause) -> RootCause:
    return replace(
        verdict,
        text=mask_secrets(verdict.text),
        command=mask_secrets(verdict.command),
        evidence=tuple(replace(line, text=mask_secrets(line.text)) for line in verdict.evidence),
        alternatives=tuple(replace(other, text=mask_secrets(other.text)) for other in verdict.alternatives),
    )
