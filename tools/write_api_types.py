"""Writes the fields of Kubernetes' own types to a file of the package, from the OpenAPI of the tests' API server.

    tools/write_api_types.py

Run it after an upgrade of the tests' control plane. A test compares the file with that API server's OpenAPI.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import tempfile
from collections.abc import Awaitable, Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from windlass.controlplane import cluster
from windlass.controlplane.api import Api

FILE = Path(__file__).resolve().parent.parent / "src/windlass/jobs/kubernetes/manifests/known_fields/api_types.json"
GROUPS = ("api/v1", "apis/batch/v1", "apis/autoscaling/v2")
KINDS = ("ConfigMap", "Secret", "Service", "ServiceAccount", "PersistentVolumeClaim", "Pod", "Job", "CronJob")
"""Kinds that a manifest file may contain beside jobs."""
PARTS = ("PodTemplateSpec", "MetricSpec")
"""Types that the schemas of jobs contain."""
SERVER_FIELDS = ("status", "managedFields")
"""Fields that the API server fills in: their own fields are not written."""


async def fetch_types(api: Api) -> str:
    """The file's text, from the OpenAPI of an API server."""
    version = await api.get("/version")
    documents = [await api.get(f"/openapi/v3/{group}") for group in GROUPS]
    return render(f"{version['major']}.{version['minor']}", types_of(documents))


def types_of(documents: Sequence[Mapping[str, Any]]) -> dict[str, dict[str, str]]:
    """Types that `KINDS` and `PARTS` contain, by name; see `jobs.kubernetes.manifests.known_fields.types`."""
    schemas = {name: schema for each in documents for name, schema in each["components"]["schemas"].items()}
    names = {_short(full): full for full, schema in schemas.items() if "properties" in schema}
    found: dict[str, dict[str, str]] = {}
    wanted = [*KINDS, *PARTS]
    while wanted:
        name = wanted.pop()
        if name in found:
            continue
        properties = schemas[names[name]]["properties"]
        found[name] = {
            field: "" if field in SERVER_FIELDS else _shape(schema, schemas) for field, schema in properties.items()
        }
        wanted += [inner for shape in found[name].values() if (inner := shape.strip("[]{}"))]
    return found


def _shape(schema: Mapping[str, Any], schemas: Mapping[str, Any]) -> str:
    """Name of the field's type, in brackets for a list of it, in braces for a mapping to it; empty without one."""
    match schema:
        case {"allOf": [inner]}:
            return _shape(inner, schemas)
        case {"$ref": reference}:
            full = reference.rpartition("/")[2]
            return _short(full) if "properties" in schemas[full] else ""
        case {"items": items}:
            return _around("[", _shape(items, schemas), "]")
        case {"additionalProperties": {**values}}:
            return _around("{", _shape(values, schemas), "}")
    return ""


def _around(begin: str, shape: str, end: str) -> str:
    return f"{begin}{shape}{end}" if shape else ""


def _short(full: str) -> str:
    return full.rpartition(".")[2]


def render(version: str, types: Mapping[str, Mapping[str, str]]) -> str:
    """The file's text, one type on a line, so that a diff shows which type has changed."""
    lines = [f"    {json.dumps(name)}: {json.dumps(fields, sort_keys=True)}" for name, fields in sorted(types.items())]
    return f'{{\n  "kubernetes": "{version}",\n  "types": {{\n' + ",\n".join(lines) + "\n  }\n}\n"


def write(file: Path, fetch: Callable[[Api], Awaitable[str]]) -> None:
    """Writes what an API server of its own tells to a file."""

    async def connected(plane: cluster.ControlPlane) -> str:
        async with plane.api() as api:
            return await fetch(api)

    with (
        tempfile.TemporaryDirectory(prefix="windlass-") as folder,
        contextlib.closing(cluster.start(Path(folder) / "plane", cluster.Settings())) as plane,
    ):
        file.write_text(asyncio.run(connected(plane)))


if __name__ == "__main__":
    write(FILE, fetch_types)
