"""Schema of a pod template: the type of Kubernetes, and the rules by which the operator reads it.

The rules are those of `jobs.kubernetes.kinds.replica_specs.check_template`, `pod_requests` and `pod_placement`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from windlass.deploy.definition import MAX_NAME
from windlass.deploy.pod_types import whole_type
from windlass.deploy.structural_schema import INT32, Schema, rule, with_rules

MAX_CONTAINERS = 100
_OPERATORS = ("", "Equal", "Exists")


def template_schema(container: str = "") -> Schema:
    """Schema of a template in which one container must have the given name; empty: any names."""
    containers = {**_containers(), "minItems": 1}
    if container:
        missing = f"no container is called '{container}'; rename the one that trains to '{container}'"
        containers = with_rules(containers, rule(f"self.exists(container, container.name == '{container}')", missing))
    spec = {
        "containers": containers,
        "initContainers": _containers(),
        "terminationGracePeriodSeconds": {"minimum": 0, "maximum": INT32},
        "tolerations": {"items": _fields(operator={"enum": list(_OPERATORS)})},
    }
    whole = merged(whole_type("PodTemplateSpec"), _fields(spec=_fields(**spec)))
    return {"description": "Pod template, as in any workload.", **whole, "required": ["spec"]}


def _containers() -> Schema:
    port = _fields(containerPort={"minimum": 1, "maximum": 65535}, hostPort={"minimum": 0, "maximum": 65535})
    container = _fields(name={"minLength": 1, "maxLength": MAX_NAME}, image={"minLength": 1}, ports={"items": port})
    return {"maxItems": MAX_CONTAINERS, "items": {**container, "required": ["name", "image"]}}


def _fields(**properties: Schema) -> Schema:
    return {"properties": properties}


def merged(below: Mapping[str, Any], above: Mapping[str, Any]) -> Schema:
    """A schema with the keywords of another; common mappings have the keywords of both."""
    result = dict(below)
    for name, value in above.items():
        inner = below.get(name)
        result[name] = merged(inner, value) if isinstance(inner, dict) and isinstance(value, dict) else value
    return result
