"""The schema of a pod template: everything passes, and what the operator reads of it has the shape that it needs.

The rules are those of `jobs.kubernetes.kinds.replica_specs.check_template`, `pod_requests` and `pod_placing`.
"""

from __future__ import annotations

from windlass.deploy.structural import (
    INT32,
    Schema,
    anything,
    flag,
    listing,
    mapping,
    opaque,
    rule,
    text,
    under,
    whole,
    words,
)

MOST_CONTAINERS = 100
_QUANTITY = r"^\+?([0-9]+\.?[0-9]*|\.[0-9]+)([numkMGTPE]|[KMGTPE]i|[eE][-+]?[0-9]{1,2})?$"
_NAME_MOST = 253
_CALLED = rule("size(self) > 0", "expects a name")


def template_schema(container: str = "") -> Schema:
    """Of pods in which one container must have a given name; "" if none need have one."""
    about = "The pods, as in any workload. What Windlass does not read passes through untouched."
    metadata = opaque(labels=mapping(text()), annotations=mapping(text()))
    spec = opaque(
        containers=_containers(container),
        initContainers=listing(_container(), maxItems=MOST_CONTAINERS),
        volumes=listing(opaque()),
        schedulerName=text(),
        restartPolicy=text(),
        priorityClassName=text(),
        serviceAccountName=text(),
        terminationGracePeriodSeconds=whole(0, INT32),
        dnsConfig=opaque(searches=listing(text())),
        hostNetwork=flag(),
        nodeSelector=mapping(text()),
        tolerations=listing(
            opaque(key=text(), operator=words(("", "Equal", "Exists")), value=text(), effect=text()),
        ),
        overhead=_amounts(),
        resources=_resources(),
    )
    return {**opaque(about, metadata=metadata, spec={**spec, "required": ["containers"]}), "required": ["spec"]}


def _containers(name: str) -> Schema:
    schema = listing(_container(), minItems=1, maxItems=MOST_CONTAINERS)
    if not name:
        return schema
    missing = f"no container is called '{name}'; call the one that trains so"
    return under(schema, rule(f"self.exists(container, container.name == '{name}')", missing))


def _container() -> Schema:
    port = {
        **opaque(
            name=text(),
            containerPort=whole(1, 65535),
            hostPort=whole(0, 65535),
            protocol=text(),
        ),
        "required": ["containerPort"],
    }
    named = opaque(name=text())
    container = opaque(
        name=under(text(maxLength=_NAME_MOST), _CALLED),
        image=text(minLength=1),
        env=listing(named),
        ports=listing(port),
        volumeMounts=listing(named),
        command=listing(text()),
        args=listing(text()),
        resources=_resources(),
        restartPolicy=text(),
    )
    return {**container, "required": ["name", "image"]}


def _resources() -> Schema:
    return opaque(limits=_amounts(), requests=_amounts())


def _amounts() -> Schema:
    """Quantities: texts, and numbers too, broken ones included, as in pods."""
    no_flag = {"not": {"enum": [True, False]}}
    return mapping({**anything(pattern=_QUANTITY, minimum=0, maxProperties=0, maxItems=0), **no_flag})
