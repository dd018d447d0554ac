"""Check of the schedulers that the templates of jobs name, by the rules of the installed operator."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from windlass.backends.kubernetes.client.connection import Connection, find_object, list_if_served
from windlass.backends.kubernetes.client.resources import DEPLOYMENTS
from windlass.backends.kubernetes.served_kinds import JOB_KINDS, RUNTIMES
from windlass.deploy.install.findings import Finding, ok, warning
from windlass.jobs.kubernetes.foreign_schedulers import (
    SCHEDULER,
    SchedulerAction,
    SchedulerRules,
    parse_scheduler_rules,
)
from windlass.jobs.kubernetes.operator_names import OPERATOR
from windlass.jobs.kubernetes.status.foreign_status import has_ended

OPTION = "--foreign-schedulers"
_ABOUT = "schedulers"
_NAMED = 3
"""Maximum number of objects that a finding names."""
_MEANINGS = {
    SchedulerAction.ADOPT: "Windlass places the pods",
    SchedulerAction.RESPECT: "that scheduler places the pods, Windlass only admits them",
    SchedulerAction.REFUSE: "the jobs do not start",
}


async def check_schedulers(connection: Connection, namespace: str) -> list[Finding]:
    """Finds the schedulers that templates of jobs name, and what becomes of these jobs."""
    deployment = await find_object(connection, DEPLOYMENTS, namespace, OPERATOR)
    kinds = (*JOB_KINDS, *RUNTIMES)
    found = await asyncio.gather(*(list_if_served(connection, kind) for kind in kinds))
    named = [{**each, "kind": kind.kind} for kind, listed in zip(kinds, found, strict=True) for each in listed]
    return findings_of_schedulers(rules_of(deployment), named)


def rules_of(deployment: Mapping[str, Any] | None) -> SchedulerRules:
    """The rules in the arguments of the operator; the default ones if it has none. Raises ValueError."""
    containers = deployment["spec"]["template"]["spec"]["containers"] if deployment is not None else []
    arguments = [each for container in containers for each in container.get("args") or ()]
    texts = [each.partition("=")[2] for each in arguments if each.startswith(f"{OPTION}=")]
    return parse_scheduler_rules(texts[-1] if texts else "")


def findings_of_schedulers(rules: SchedulerRules, manifests: Iterable[dict[str, Any]]) -> list[Finding]:
    """Findings about runtimes, and jobs that have not ended, whose templates name another scheduler than Windlass."""
    found: defaultdict[str, set[str]] = defaultdict(set)
    for manifest in manifests:
        about = manifest["metadata"]
        where = f"{about['namespace']}/" if about.get("namespace") else ""
        for name in set() if has_ended(manifest) else set(_scheduler_names(manifest.get("spec"))) - {SCHEDULER}:
            found[name].add(f"{manifest['kind']} {where}{about['name']}")
    if not found:
        stated = ", ".join(f"{name}={rule}" for name, rule in rules.by_name.items())
        return [ok(_ABOUT, f"no template names another scheduler ({stated})")]
    return [_finding(rules, name, sorted(names)) for name, names in sorted(found.items())]


def _finding(rules: SchedulerRules, name: str, naming: Sequence[str]) -> Finding:
    rule = rules.rule_of(name)
    some = ", ".join(naming[:_NAMED]) + (f" and {len(naming) - _NAMED} more" if len(naming) > _NAMED else "")
    groups = f", with PodGroups of {rule.pod_groups}" if rule.pod_groups else ""
    message = f"{name} is named by {some}: {rule.action}, {_MEANINGS[rule.action]}{groups}"
    if rule.action is SchedulerAction.REFUSE:
        return warning(_ABOUT, message, f"remove schedulerName, or windlass operator install {OPTION} {name}=ACTION")
    return ok(_ABOUT, message)


def _scheduler_names(spec: Any) -> Iterator[str]:
    """Yields each `schedulerName` in the pod templates of a spec, of whatever kind."""
    if isinstance(spec, list):
        for each in spec:
            yield from _scheduler_names(each)
    elif isinstance(spec, dict):
        if isinstance(name := spec.get("schedulerName"), str) and name:
            yield name
        for each in spec.values():
            yield from _scheduler_names(each)
