"""Schema of replica specs: types, number of replicas, templates.

Rules, tables and messages are those of `jobs.kubernetes.kinds.replica_specs.replica_specs`.
"""

from __future__ import annotations

from windlass.deploy.pod_schema import template_schema
from windlass.deploy.structural_schema import Rule, Schema, closed_object, integer, mapping, one_of, rule, with_rules
from windlass.jobs.kubernetes.kinds.replica_specs import MAX_REPLICAS, RESTART_POLICIES, ReplicaTypes

_MAX_TYPES = 10
"""More than any kind has, so that a rule with a better message refuses an unknown type first."""


def replica_specs_schema(kind: ReplicaTypes, restarts: tuple[str, ...] = RESTART_POLICIES) -> Schema:
    """Schema of `spec.pytorchReplicaSpecs` and its counterparts."""
    default = f"default {kind.default_restart_policy}"
    replica = closed_object(
        {
            "replicas": _count(kind),
            "template": template_schema(kind.port.container if kind.port else ""),
            "restartPolicy": one_of(("", *restarts), f"Action when a container ends; {default}."),
        },
        required=("template",),
    )
    about = f"Replicas by type: {', '.join(kind.types)}."
    return with_rules(mapping(replica, about, maxProperties=_MAX_TYPES), *_rules(kind))


def count_of(kind: ReplicaTypes, specs: str, name: str) -> str:
    """CEL expression for the number of replicas of the type in the CEL variable `name`."""
    few = [kind_name for kind_name, count in kind.default_counts.items() if count == 0]
    default = f"({name} in {_listed(few)} ? 0 : 1)" if few else "1"
    return f"(has({specs}[{name}].replicas) ? {specs}[{name}].replicas : {default})"


def is_type(kind: ReplicaTypes, name: str, known: str) -> str:
    """CEL expression that tells whether a key in the CEL variable `name` is a type's name."""
    return f"{name}.lowerAscii() == '{known.lower()}'" if kind.fold_case else f"{name} == '{known}'"


def _count(kind: ReplicaTypes) -> Schema:
    schema = integer(0, MAX_REPLICAS, "Number of pods of this type; default 1, but 0 for an MPIJob's workers.")
    if not kind.min_replicas or not all(kind.default_counts.get(name, 1) for name in kind.types):
        return schema
    return with_rules(schema, rule("self >= 1", "must be at least 1; leave the type out instead"))


def _rules(kind: ReplicaTypes) -> list[Rule]:
    names = " and ".join(kind.types)
    some = rule("size(self) > 0", f"expects {names}, one of them at least")
    pods = rule(
        f"size(self) == 0 || self.exists(t, {count_of(kind, 'self', 't')} > 0)",
        "asks for no pods at all; write replicas: 1 at least once",
    )
    return [some, *_known(kind), *_single(kind), *_needed(kind), pods]


def _known(kind: ReplicaTypes) -> list[Rule]:
    same = "t.lowerAscii()" if kind.fold_case else "t"
    valid = _listed([name.lower() if kind.fold_case else name for name in kind.types])
    ends = f"is no replica type of this kind; valid are {', '.join(kind.types)}"
    first = f"self.filter(t, !({same} in {valid}))[0]"
    known = rule(
        f"self.all(t, {same} in {valid})", f"a type {ends}", message_expression=f"'\\'' + {first} + '\\' {ends}'"
    )
    if not kind.fold_case:
        return [known]
    twice = "has a type a second time, in small and in capital letters; write it once"
    return [known, rule("self.all(a, self.exists_one(b, a.lowerAscii() == b.lowerAscii()))", twice)]


def _single(kind: ReplicaTypes) -> list[Rule]:
    return [
        rule(
            f"self.all(t, !({is_type(kind, 't', name)}) || !has(self[t].replicas) || self[t].replicas == 1)",
            f"replicas must be 1: a job has one {name}",
        )
        for name in kind.single_types
    ]


def _needed(kind: ReplicaTypes) -> list[Rule]:
    return [
        rule(
            f"size(self) == 0 || self.exists(t, {is_type(kind, 't', name)})",
            f"has no {name}; every job of this kind has one",
        )
        for name in kind.required_types
    ]


def _listed(names: list[str]) -> str:
    return "[" + ", ".join(f"'{name}'" for name in names) + "]"
