"""Applies the rules to observations in their order, and keeps the observations about each gang for a report."""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from .cluster_view import Change, ClusterView, Job, Observation, Pod, Verb
from .rules import AT_ONCE, AT_THE_END, LASTING

BIND_WINDOW_S = 60.0
"""Seconds without faults after which a gang may not be partly bound any more, nor a status untrue."""
_TRAIL = 40
"""Number of observations about one gang that a report shows."""


@dataclass(frozen=True, slots=True)
class Violation:
    """A broken rule, with the observations that led to it."""

    rule: str
    subject: str
    text: str
    trail: tuple[str, ...]

    def __str__(self) -> str:
        return "\n    ".join([f"{self.rule}: {self.subject}: {self.text}", *self.trail])


@dataclass
class Judge:
    """Records each violation once. `window`: seconds for which a lasting rule may be broken."""

    window: float = BIND_WINDOW_S
    view: ClusterView = field(default_factory=ClusterView)
    violations: dict[tuple[str, str], Violation] = field(default_factory=dict)
    observed: int = 0
    _since: dict[tuple[str, str, str], float] = field(default_factory=dict)
    _blind: set[str] = field(default_factory=set)
    _faults: int = 0
    _trails: dict[str, deque[str]] = field(default_factory=lambda: defaultdict(lambda: deque(maxlen=_TRAIL)))

    def observe(self, observation: Observation) -> None:
        self.observed += 1
        changes = self._apply(observation)
        self._remember(observation.at, changes)
        for rule in AT_ONCE:
            for subject, text in rule(self.view, changes):
                self._report(rule.__name__, subject, text)
        self._judge_lasting(observation.at)

    def _apply(self, observation: Observation) -> list[Change]:
        if observation.verb is Verb.BLIND:
            self._blind.add(observation.kind)
        elif observation.verb is Verb.LISTED:
            self._blind.discard(observation.kind)
        elif observation.verb is Verb.DISTURBED:
            self._faults += 1
        elif observation.verb is Verb.CALM:
            self._faults -= 1
        return self.view.apply(observation)

    def lasting_findings(self) -> list[tuple[str, str, str]]:
        """Findings of lasting rules as of now: rule, subject and sentence."""
        return [(rule.__name__, subject, text) for rule in LASTING for subject, text in rule(self.view)]

    def _judge_lasting(self, at: float) -> None:
        """Time during a fault, or while a watch is away, does not count: the cluster cannot be expected to settle."""
        if self._faults or self._blind:
            self._since.clear()
            return
        findings = self.lasting_findings()
        for gone in self._since.keys() - set(findings):
            del self._since[gone]
        for finding in findings:
            if at - self._since.setdefault(finding, at) > self.window:
                rule, subject, text = finding
                self._report(rule, subject, f"{text}, for more than {self.window:.0f} s")

    def unfinished(self) -> list[str]:
        """Findings that would be violations if the history ended now."""
        at_the_end = [f"{subject}: {text}" for rule in AT_THE_END[:1] for subject, text in rule(self.view)]
        return [*at_the_end, *(f"{subject}: {text}" for _, subject, text in self.lasting_findings())]

    def close(self) -> Sequence[Violation]:
        """Judges the whole history. Returns all violations."""
        for rule in AT_THE_END:
            for subject, text in rule(self.view):
                self._report(rule.__name__, subject, text)
        return list(self.violations.values())

    def _remember(self, at: float, changes: Sequence[Change]) -> None:
        for before, after in changes:
            if before == after:
                continue
            for subject in self._subjects(before, after):
                self._trails[subject].append(f"{at:7.2f} s  {after if after is not None else f'gone: {before}'}")

    def _subjects(self, *things: object) -> Iterator[str]:
        """Names under which a violation may be reported: of the object, of its gang, and of its node."""
        names: set[str] = set()
        for thing in things:
            if isinstance(thing, Pod | Job) and thing.owner in self.view.jobs:
                above = self.view.jobs[thing.owner]
                names |= {above.name, self.view.jobs[above.owner].name if above.owner in self.view.jobs else ""}
            if isinstance(thing, Pod):
                names |= {thing.name, self.view.name_of(thing), thing.node}
            elif thing is not None:
                names.add(thing.name)  # type: ignore[attr-defined]
        return iter(names - {""})

    def _report(self, rule: str, subject: str, text: str) -> None:
        if (rule, subject) not in self.violations:
            self.violations[rule, subject] = Violation(rule, subject, text, tuple(self._trails.get(subject, ())))
