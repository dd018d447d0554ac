"""Turns facts into candidates for the root cause: rules whose conditions hold, with the lines that prove them."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from windlass.diagnose.diagnosis import CauseScope, Certainty
from windlass.diagnose.failures.evidence import Fact
from windlass.diagnose.failures.failure_rules import LOST_PEERS, TIMEOUTS, FailureRule, RuleRole
from windlass.diagnose.failures.log_scan import LogFindings

_HEALTHY = "healthy"
_WEAKER = {
    Certainty.CERTAIN: Certainty.LIKELY,
    Certainty.LIKELY: Certainty.POSSIBLE,
    Certainty.POSSIBLE: Certainty.POSSIBLE,
}
_ENDED_WELL = frozenset({"job-completed", "program-completed", "training-completed"})
"""Hints that state a good end: of the job, or of the program of one log."""
_HANGS = "log-says-it-hangs"
BARE_END = "exit-status"
"""Rule of an exit code without a message."""
_GENERIC = frozenset({"python-exception", "python-runtime-error", "nccl-socket-warning"})
"""Rules that take every exception, or every warning of one source file. On a line that another rule knows they prove
nothing of their own."""
_MILD = re.compile(r"\b(?:WARNING|INFO|DEBUG)\b|\w+Warning: ")
"""Words of a logger about a line that its program does not take for an error."""
_STALE_LINES = 300
"""Lines that a log goes on after a fact, before later facts: the program survived it."""


@dataclass(frozen=True, slots=True)
class CauseCandidate:
    """A rule that may name the root cause."""

    rule: FailureRule
    facts: Sequence[Fact]
    """In the order of their times, or of their lines."""
    certainty: Certainty
    is_survived: bool = False
    """Whether the program went on after the last of the facts."""
    is_handled: bool = False
    """Whether it also went on without a traceback: the program expects the error."""

    @property
    def first(self) -> Fact:
        """The fact that came first."""
        return self.facts[0]


def find_candidates(
    facts: Sequence[tuple[Fact, int]],
    rules: Mapping[str, FailureRule],
    logs: Sequence[LogFindings],
    *,
    has_failed: bool,
) -> list[CauseCandidate]:
    """Candidates in the order of their first facts.

    A rule that relies on an absent message is weaker where any log may lack lines. Where the program has handled
    every error and the backend does not say that the job failed, there is no candidate.
    """
    by_name = {log.source.name: log for log in logs}
    is_complete = all(log.source.is_complete and not log.gaps.sentences(log.source.name) for log in logs)
    present = {fact.rule for fact, _ in facts}
    ignored = _healthy_lines(facts, rules)
    explained = _explained_lines(facts, rules)
    ends = [fact for fact, _ in facts if fact.rule in _ENDED_WELL and not has_failed]
    recoveries = [fact for fact, _ in facts if rules[fact.rule].ends]
    is_stopped = has_failed or _HANGS in present
    has_reasons = _have_reasons([fact for fact, _ in facts])
    by_rule: dict[str, list[tuple[Fact, int]]] = defaultdict(list)
    for fact, signature in facts:
        is_proof = _is_alarm(fact, ignored, rules) and not (fact.rule in _GENERIC and _place(fact) in explained)
        is_over = any(_is_overcome(fact, each, rules) for each in recoveries)
        if is_proof and not is_over and not any(_precedes(fact, end, rules[end.rule].scope) for end in ends):
            by_rule[fact.rule].append((fact, signature))
    found = []
    for id, proofs in by_rule.items():
        rule = rules[id]
        if (
            rule.role is RuleRole.HINT
            or rule.cause == _HEALTHY
            or not rule.requires <= present
            or rule.absent & present
            or (rule.at_end and not (is_stopped and any(is_last_line(id, log) for log in logs)))
            or (id == BARE_END and has_reasons)
        ):
            continue
        if kept := _in_order(_complete_sets(rule, proofs)):
            is_sure = not rule.absent or is_complete
            certainty = rule.certainty if is_sure and not _are_mild(kept) else _WEAKER[rule.certainty]
            goes_on = _goes_on(kept, by_name)
            is_survived = goes_on or _is_survived(kept, facts, rules)
            is_handled = goes_on and not any(_is_raised(fact, by_name) for fact in kept)
            found.append(CauseCandidate(rule, kept, certainty, is_survived, is_handled))
    if not has_failed and all(each.is_handled for each in found):
        return []
    return sorted(found, key=lambda each: (order_of(each.first), each.rule.id))


def _have_reasons(facts: Sequence[Fact]) -> bool:
    """Whether every rank whose exit code is reported says itself that another rank was missing or gone."""
    ended = {fact.rank for fact in facts if fact.rule == BARE_END and fact.rank is not None}
    reporters = {fact.rank for fact in facts if fact.rule in TIMEOUTS | LOST_PEERS and fact.rank is not None}
    return bool(ended) and ended <= reporters


def is_last_line(rule: str, log: LogFindings) -> bool:
    """Whether the last line of a log that is not empty fires the rule."""
    return any(id == rule and line == log.last_line for (id, _), line in log.repeats.items())


def weaken(certainty: Certainty) -> Certainty:
    """The next weaker certainty."""
    return _WEAKER[certainty]


def order_of(fact: Fact) -> tuple[int, int]:
    """Sort key of facts: by time where it is known, by line otherwise. Facts without a time follow those with one."""
    return (fact.time if fact.time is not None else 1 << 62, fact.evidence.line)


def _place(fact: Fact) -> tuple[str, int]:
    return (fact.evidence.source, fact.evidence.line)


def _healthy_lines(
    facts: Sequence[tuple[Fact, int]], rules: Mapping[str, FailureRule]
) -> Mapping[tuple[str, int], set[str]]:
    """Lines that a healthy run prints, with the hints that say so."""
    found: dict[tuple[str, int], set[str]] = defaultdict(set)
    for fact, _ in facts:
        if rules[fact.rule].cause == _HEALTHY and fact.evidence.line:
            found[_place(fact)].add(fact.rule)
    return found


def _is_alarm(fact: Fact, healthy: Mapping[tuple[str, int], set[str]], rules: Mapping[str, FailureRule]) -> bool:
    """Whether no hint calls the line healthy, except hints that the rule beats."""
    return healthy.get(_place(fact), set()) <= rules[fact.rule].beats


def _explained_lines(facts: Sequence[tuple[Fact, int]], rules: Mapping[str, FailureRule]) -> set[tuple[str, int]]:
    """Lines on which a rule other than the generic ones has fired, with all that it needs."""
    by_rule: dict[str, list[tuple[Fact, int]]] = defaultdict(list)
    for fact, signature in facts:
        if fact.rule not in _GENERIC and rules[fact.rule].role is not RuleRole.HINT:
            by_rule[fact.rule].append((fact, signature))
    return {_place(fact) for id, proofs in by_rule.items() for fact in _complete_sets(rules[id], proofs)}


def _are_mild(facts: Sequence[Fact]) -> bool:
    """Whether the program itself calls every one of the lines a warning, or less."""
    return all(_MILD.search(fact.evidence.text) for fact in facts)


def _precedes(fact: Fact, end: Fact, scope: CauseScope) -> bool:
    """Whether a job, or the program of a rank, ended well after a fact: then it is no reason of a failure."""
    if fact.evidence.source == end.evidence.source:
        return fact.evidence.line < end.evidence.line and (scope is CauseScope.JOB or fact.rank == end.rank)
    is_later = fact.time is None or end.time is None or fact.time <= end.time
    return scope is CauseScope.JOB and is_later


def _is_overcome(fact: Fact, recovery: Fact, rules: Mapping[str, FailureRule]) -> bool:
    """Whether a later line of the same log says that what the fact reports is over."""
    place, later = fact.evidence, recovery.evidence
    return fact.rule in rules[recovery.rule].ends and place.source == later.source and place.line < later.line


def _complete_sets(rule: FailureRule, proofs: Sequence[tuple[Fact, int]]) -> list[Fact]:
    """The facts of a rule; of one that needs all signatures, those of logs in which all have fired."""
    if not rule.needs_all:
        return [fact for fact, _ in proofs]
    fired: dict[str, set[int]] = defaultdict(set)
    for fact, signature in proofs:
        fired[fact.evidence.source].add(signature)
    return [fact for fact, _ in proofs if len(fired[fact.evidence.source]) == len(rule.signatures)]


def _in_order(facts: Sequence[Fact]) -> list[Fact]:
    return sorted(facts, key=order_of)


def _goes_on(facts: Sequence[Fact], logs: Mapping[str, LogFindings]) -> bool:
    """Whether the program of every fact reports progress after the last such message of its rank."""
    return all(fact.evidence.source in logs and _has_progress(fact, logs[fact.evidence.source]) for fact in facts)


def _has_progress(fact: Fact, log: LogFindings) -> bool:
    later = log.progress.get(fact.rank)
    last = log.repeats.get((fact.rule, fact.rank), fact.evidence.line)
    return later is not None and len(later) == 2 and later[0] > last


def _is_raised(fact: Fact, logs: Mapping[str, LogFindings]) -> bool:
    return fact.evidence.line in logs[fact.evidence.source].raised


def _is_survived(own: Sequence[Fact], facts: Sequence[tuple[Fact, int]], rules: Mapping[str, FailureRule]) -> bool:
    """Whether the log of the last fact goes on for many lines, and then reports another failure."""
    last = max(own, key=lambda fact: fact.evidence.line)
    later = [
        fact.evidence.line
        for fact, _ in facts
        if fact.evidence.source == last.evidence.source
        and fact.evidence.line > last.evidence.line
        and rules[fact.rule].role is RuleRole.ROOT
    ]
    return bool(later) and min(later) - last.evidence.line > _STALE_LINES
