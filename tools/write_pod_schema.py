"""Writes the schemas of Kubernetes' pod types to a file of the package, from the OpenAPI of the tests' API server.

    tools/write_pod_schema.py

Run it after an upgrade of the tests' control plane, then `tools/write_deployment.py`. A test compares the file with
that API server's OpenAPI. `windlass.deploy.pod_types` makes the schemas of the definitions from it.
"""

from __future__ import annotations

import json
import re
import textwrap
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import write_api_types

from windlass.controlplane.api import Api

FILE = Path(__file__).resolve().parent.parent / "src/windlass/deploy/pod_types.json"
GROUPS = ("api/v1", "apis/batch/v1")
ROOTS = ("PodTemplateSpec", "JobTemplateSpec", "PersistentVolumeClaim")
"""Types that the definitions contain: templates of pods, and those of the Jobs and claims of a JobSet."""
OPAQUE = ("PersistentVolumeClaimStatus", "ManagedFieldsEntry", "EphemeralContainer")
"""Types whose fields are not written: no template may have an ephemeral container, and servers write the others."""
NULLABLE = ("creationTimestamp",)
"""Fields that encoders of Go write as null."""
DESCRIBED = (
    "Container",
    "ContainerPort",
    "EnvVar",
    "JobSpec",
    "PodSpec",
    "PodTemplateSpec",
    "ResourceRequirements",
    "SecurityContext",
    "Toleration",
    "VolumeMount",
)
"""Types whose fields are described. Descriptions of all fields would double the size of each definition."""
MAX_DESCRIPTION = 100
QUANTITY = "Quantity"
MAP_KEYS = "x-kubernetes-list-map-keys"
KEYS = ("name", "protocol")
"""Keys of lists whose default is written: in a definition a key is required or has a default."""
OPEN = {"x-kubernetes-preserve-unknown-fields": True}


async def fetch_types(api: Api) -> str:
    """The file's text, from the OpenAPI of an API server."""
    version = await api.get("/version")
    documents = [await api.get(f"/openapi/v3/{group}") for group in GROUPS]
    schemas = {name: schema for each in documents for name, schema in each["components"]["schemas"].items()}
    return render(f"{version['major']}.{version['minor']}", types_of(schemas))


def types_of(schemas: Mapping[str, Any]) -> dict[str, Any]:
    """Structural schemas of the types that `ROOTS` contain, by short name; `$ref` is the short name of another one."""
    names = {_short(full): full for full, schema in schemas.items() if "properties" in schema}
    found: dict[str, Any] = {}
    wanted = [*ROOTS]
    while wanted:
        name = wanted.pop()
        if name not in found:
            found[name] = _object(name, schemas[names[name]], schemas)
            wanted += set(re.findall(r'"\$ref": "(\w+)"', json.dumps(found[name]))) - {QUANTITY}
    return found


def _object(name: str, schema: Mapping[str, Any], schemas: Mapping[str, Any]) -> dict[str, Any]:
    required = schema.get("required", ())
    properties = {
        field: {**_value(each, schemas), **_absence(field, each, required=field in required)}
        for field, each in schema["properties"].items()
    }
    if name in DESCRIBED:
        about = {field: {"description": _first_sentence(schema["properties"][field])} for field in properties}
        properties = {field: {**about[field], **each} for field, each in properties.items()}
    return {"type": "object", "properties": properties, **_copied(schema, "required", "x-kubernetes-map-type")}


def _absence(name: str, schema: Mapping[str, Any], *, required: bool) -> dict[str, Any]:
    """Keywords for a missing field and for null."""
    null = {"nullable": True} if name in NULLABLE else {}
    return {**(_copied(schema, "default") if name in KEYS and not required else {}), **null}


def _value(schema: Mapping[str, Any], schemas: Mapping[str, Any]) -> dict[str, Any]:
    """Structural schema of a value, without the keywords for a missing one."""
    found = {**_copied(schema, "type", "format"), **(OPEN if schema.get("type") == "object" else {})}
    match schema:
        case {"allOf": [inner]}:
            found = _value(inner, schemas)
        case {"$ref": reference}:
            full = reference.rpartition("/")[2]
            found = {"$ref": _short(full)} if _has_type(full, schemas) else _value(schemas[full], schemas)
        case {"oneOf": [{"type": "string"}, {"type": "number"}]}:
            found = {"$ref": QUANTITY}
        case {"format": "int-or-string"}:
            found = {"x-kubernetes-int-or-string": True}
        case {"items": items}:
            each = _value(items, schemas)
            keys = _copied(schema, "x-kubernetes-list-type", MAP_KEYS) if MAP_KEYS in schema and "$ref" in each else {}
            found = {"type": "array", "items": each, **keys}
        case {"additionalProperties": {**values}}:
            each = _value(values, schemas)
            found = {"type": "object", "additionalProperties": each, **_copied(schema, "x-kubernetes-map-type")}
    return found


def _has_type(full: str, schemas: Mapping[str, Any]) -> bool:
    """Whether the fields of a type are written."""
    return "properties" in schemas[full] and _short(full) not in OPAQUE


def _copied(schema: Mapping[str, Any], *names: str) -> dict[str, Any]:
    return {name: schema[name] for name in names if name in schema}


def _first_sentence(schema: Mapping[str, Any]) -> str:
    whole = " ".join(schema["description"].split())
    sentence = re.split(r"(?<=\w\.)\s", whole, maxsplit=1)[0]
    return (
        sentence if len(sentence) <= MAX_DESCRIPTION else textwrap.shorten(sentence, MAX_DESCRIPTION, placeholder="...")
    )


def _short(full: str) -> str:
    return full.rpartition(".")[2]


def render(version: str, types: Mapping[str, Any]) -> str:
    """The file's text, one type on a line, so that a diff shows which type has changed."""
    lines = [f"    {json.dumps(name)}: {json.dumps(schema, sort_keys=True)}" for name, schema in sorted(types.items())]
    return f'{{\n  "kubernetes": "{version}",\n  "types": {{\n' + ",\n".join(lines) + "\n  }\n}\n"


if __name__ == "__main__":
    write_api_types.write(FILE, fetch_types)
