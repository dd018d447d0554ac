"""The schema of a pod template: everything passes, and what the operator reads of it has the shape that it needs.

The rules are those of `jobs.kubernetes.kinds.replica_specs.check_template`, `pod_requests` and `pod_placing`.
"""

from __future__ import annotations

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

MOST_CONTAINERS = 100
_QUANTITY = r"^\+?([0-9]+\.?[0-9]*|\.[0-9]+)([numkMGTPE]|[KMGTPE]i|[eE][-+]?[0-9]{1,2})?$"
_NAME_MOST = 253
_CALLED = rule("size(self) > 0", "expects a name")


def template_schema(container: str = "") -> Schema:
    """Of pods in which one container must have a given name; "" if none need have one."""
    about = "The pods, as in any workload. What Windlass does not read passes through untouched."
    metadata = open_object(labels=mapping(text()), annotations=mapping(text()))
    spec = open_object(
        containers=_containers(container),
        initContainers=array(_container(), maxItems=MOST_CONTAINERS),
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
    schema = array(_container(), minItems=1, maxItems=MOST_CONTAINERS)
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
        name=with_rules(text(maxLength=_NAME_MOST), _CALLED),
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
    """Quantities: texts, and numbers too, broken ones included, as in pods."""
    no_flag = {"not": {"enum": [True, False]}}
    return mapping({**any_value(pattern=_QUANTITY, minimum=0, maxProperties=0, maxItems=0), **no_flag})
