"""Schema of a pod template: any field is accepted, and the fields that the operator reads have their types.

The rules are those of `jobs.kubernetes.kinds.replica_specs.check_template`, `pod_requests` and `pod_placement`.
"""

from __future__ import annotations

from windlass.deploy.definition import MAX_NAME
from windlass.deploy.structural_schema import (
    INT32,
    Schema,
    any_value,
    array,
    boolean,
    integer,
    mapping,
    one_of,
    open_object,
    rule,
    text,
    with_rules,
)

MAX_CONTAINERS = 100
_QUANTITY = r"^\+?([0-9]+\.?[0-9]*|\.[0-9]+)([numkMGTPE]|[KMGTPE]i|[eE][-+]?[0-9]{1,2})?$"
_NAMED = rule("size(self) > 0", "expects a name")


def template_schema(container: str = "") -> Schema:
    """Schema of a template in which one container must have the given name; empty: any names."""
    about = "Pod template, as in any workload. Fields that Windlass does not read are passed through unchanged."
    metadata = open_object(labels=mapping(text()), annotations=mapping(text()))
    spec = open_object(
        containers=_containers(container),
        initContainers=array(_container(), maxItems=MAX_CONTAINERS),
        volumes=array(open_object()),
        schedulerName=text(),
        restartPolicy=text(),
        priorityClassName=text(),
        serviceAccountName=text(),
        terminationGracePeriodSeconds=integer(0, INT32),
        dnsConfig=open_object(searches=array(text())),
        hostNetwork=boolean(),
        nodeSelector=mapping(text()),
        tolerations=array(
            open_object(key=text(), operator=one_of(("", "Equal", "Exists")), value=text(), effect=text()),
        ),
        overhead=_amounts(),
        resources=_resources(),
    )
    return {**open_object(about, metadata=metadata, spec={**spec, "required": ["containers"]}), "required": ["spec"]}


def _containers(name: str) -> Schema:
    schema = array(_container(), minItems=1, maxItems=MAX_CONTAINERS)
    if not name:
        return schema
    missing = f"no container is called '{name}'; call the one that trains so"
    return with_rules(schema, rule(f"self.exists(container, container.name == '{name}')", missing))


def _container() -> Schema:
    port = {
        **open_object(
            name=text(),
            containerPort=integer(1, 65535),
            hostPort=integer(0, 65535),
            protocol=text(),
        ),
        "required": ["containerPort"],
    }
    named = open_object(name=text())
    container = open_object(
        name=with_rules(text(maxLength=MAX_NAME), _NAMED),
        image=text(minLength=1),
        env=array(named),
        ports=array(port),
        volumeMounts=array(named),
        command=array(text()),
        args=array(text()),
        resources=_resources(),
        restartPolicy=text(),
    )
    return {**container, "required": ["name", "image"]}


def _resources() -> Schema:
    return open_object(limits=_amounts(), requests=_amounts())


def _amounts() -> Schema:
    """Quantities: strings or numbers, fractions included, as in pods."""
    no_flag = {"not": {"enum": [True, False]}}
    return mapping({**any_value(pattern=_QUANTITY, minimum=0, maxProperties=0, maxItems=0), **no_flag})
