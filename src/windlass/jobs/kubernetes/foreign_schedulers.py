"""Rules of an installation for templates that name another scheduler than Windlass.

A rule is for one scheduler name, or for every other name. The texts are those of the option --foreign-schedulers.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from types import MappingProxyType
from typing import NamedTuple

from windlass.jobs.kubernetes.gang_dialects import Dialect
from windlass.jobs.syntax.names import did_you_mean

SCHEDULER = "windlass"
DEFAULT_SCHEDULER = "default-scheduler"
OTHERS = "*"
"""In place of a name: every scheduler without a rule of its own."""
_NO_DIALECT = "none"


class SchedulerAction(StrEnum):
    """The treatment of a job whose templates name a scheduler."""

    ADOPT = "adopt"
    """Its pods name Windlass instead, which places them."""
    RESPECT = "respect"
    """Its pods keep the name. Windlass admits the job by its quota, and that scheduler places the pods."""
    REFUSE = "refuse"
    """The job does not start."""


class SchedulerRule(NamedTuple):
    """The rule for one scheduler name. `pod_groups`: the dialect of the PodGroups that are written for it."""

    action: SchedulerAction
    pod_groups: Dialect | None = None

    def __str__(self) -> str:
        return f"{self.action}:{self.pod_groups}" if self.pod_groups else str(self.action)


_BY_DEFAULT = {
    DEFAULT_SCHEDULER: SchedulerRule(SchedulerAction.ADOPT),
    OTHERS: SchedulerRule(SchedulerAction.RESPECT),
}
WRITTEN = (Dialect.VOLCANO, Dialect.COSCHEDULING, Dialect.NATIVE)
"""Dialects of PodGroups that are written."""
_DIALECTS = {str(each): each for each in WRITTEN}
_DIALECT_OF: Mapping[str, Dialect | None] = {"volcano": Dialect.VOLCANO, DEFAULT_SCHEDULER: None, OTHERS: None}
"""Dialect of a rule that names none. A scheduler with another name is one of scheduler-plugins, as in the training
operator's --gang-scheduler-name."""


@dataclass(frozen=True, slots=True)
class SchedulerRules:
    """The rules of an installation."""

    by_name: Mapping[str, SchedulerRule] = field(default_factory=lambda: MappingProxyType(_BY_DEFAULT))

    def rule_of(self, name: str) -> SchedulerRule:
        """The rule for pods that name this scheduler."""
        return self.by_name.get(name) or self.by_name[OTHERS]

    @property
    def dialects(self) -> frozenset[Dialect]:
        """Dialects of the PodGroups that are written."""
        return frozenset(rule.pod_groups for rule in self.by_name.values() if rule.pod_groups)


DEFAULT_RULES = SchedulerRules()


def parse_scheduler_rules(text: str) -> SchedulerRules:
    """Reads `NAME=ACTION[:PODGROUPS],…`, which changes the default rules. Raises ValueError."""
    rules = dict(_BY_DEFAULT)
    for entry in filter(None, (each.strip() for each in text.split(","))):
        name, equals, what = (part.strip() for part in entry.partition("="))
        if not (name and equals):
            raise ValueError(f"expects NAME=ACTION, not {entry!r}")
        if name == SCHEDULER:
            raise ValueError(f"{SCHEDULER} is Windlass itself; name another scheduler")
        rules[name] = _rule(name, what)
    return SchedulerRules(MappingProxyType(rules))


def _rule(name: str, text: str) -> SchedulerRule:
    action, colon, dialect = text.partition(":")
    actions = [str(each) for each in SchedulerAction]
    if action not in actions:
        raise ValueError(f"does not know {action!r}{did_you_mean(action, actions)}")
    if colon and action != SchedulerAction.RESPECT:
        raise ValueError(f"{name}={text}: only {SchedulerAction.RESPECT} has PodGroups")
    if colon and name == OTHERS:
        raise ValueError(f"{name}={text}: only a scheduler that is named has PodGroups")
    if colon and dialect not in (*_DIALECTS, _NO_DIALECT):
        raise ValueError(f"does not know PodGroups {dialect!r}{did_you_mean(dialect, (*_DIALECTS, _NO_DIALECT))}")
    if action != SchedulerAction.RESPECT:
        return SchedulerRule(SchedulerAction(action))
    groups = _DIALECTS.get(dialect) if colon else _DIALECT_OF.get(name, Dialect.COSCHEDULING)
    return SchedulerRule(SchedulerAction.RESPECT, groups)


@dataclass(frozen=True, slots=True)
class JobScheduler:
    """The scheduler of all pods of a job."""

    name: str = SCHEDULER
    pod_groups: Dialect | None = None
    trouble: str = ""
    """Why the job may not start; "" if it may."""

    @property
    def is_foreign(self) -> bool:
        """Whether another scheduler places the pods."""
        return self.name != SCHEDULER


def choose_scheduler(named: Sequence[str], rules: SchedulerRules) -> JobScheduler:
    """The scheduler of a job by the names in its templates, of which "" is none: such pods follow the others."""
    chosen: dict[str, SchedulerRule] = {}
    for name in dict.fromkeys(filter(None, named)):
        rule = SchedulerRule(SchedulerAction.ADOPT) if name == SCHEDULER else rules.rule_of(name)
        if rule.action is SchedulerAction.REFUSE:
            return JobScheduler(name, trouble=_refused(name))
        chosen[SCHEDULER if rule.action is SchedulerAction.ADOPT else name] = rule
    if len(chosen) > 1:
        text = f"its pods are for several schedulers ({', '.join(sorted(chosen))}), which cannot start them as one gang"
        return JobScheduler(next(iter(chosen)), trouble=f"{text}: name one schedulerName in all templates")
    return next((JobScheduler(name, rule.pod_groups) for name, rule in chosen.items()), JobScheduler())


def _refused(name: str) -> str:
    return (
        f"its pods name the scheduler {name}, which this installation refuses: remove schedulerName, "
        f"or install Windlass with --foreign-schedulers {name}={SchedulerAction.ADOPT} or ={SchedulerAction.RESPECT}"
    )
