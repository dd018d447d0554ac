"""Writes which fields Kubernetes has: a file of Windlass, from what the API server of the tests says of itself.

    tools/write_api_types.py

Run it when the tests' control plane has become a newer one; a test holds the file to what that API server says.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tests/kubernetes"))

from controlplane import cluster
from controlplane.api import Api

FILE = Path(__file__).resolve().parent.parent / "src/windlass/jobs/kubernetes/known_fields/api_types.json"
GROUPS = ("api/v1", "apis/batch/v1", "apis/autoscaling/v2")
KINDS = ("ConfigMap", "Secret", "Service", "ServiceAccount", "PersistentVolumeClaim", "Pod", "Job", "CronJob")
"""Kinds that may stand in a file beside jobs."""
PARTS = ("PodTemplateSpec", "MetricSpec")
"""Of which kinds of jobs are made."""
UNSEEN = ("status", "managedFields")
"""What servers fill in."""


async def asked(api: Api) -> str:
    """The file's text, as an API server would have it."""
    version = await api.get("/version")
    documents = [await api.get(f"/openapi/v3/{group}") for group in GROUPS]
    return written(f"{version['major']}.{version['minor']}", types_of(documents))


def types_of(documents: Sequence[Mapping[str, Any]]) -> dict[str, dict[str, str]]:
    """The types that `KINDS` and `PARTS` are made of. See `windlass.jobs.kubernetes.known_fields.types`."""
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
            field: "" if field in UNSEEN else _shape(schema, schemas) for field, schema in properties.items()
        }
        wanted += [inner for shape in found[name].values() if (inner := shape.strip("[]{}"))]
    return found


def _shape(schema: Mapping[str, Any], schemas: Mapping[str, Any]) -> str:
    """What is told of a field: the type that it holds, or a list or a mapping of such; else nothing."""
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


def written(version: str, types: Mapping[str, Mapping[str, str]]) -> str:
    """A type a line, so that a change of it is seen."""
    lines = [f"    {json.dumps(name)}: {json.dumps(fields, sort_keys=True)}" for name, fields in sorted(types.items())]
    return f'{{\n  "kubernetes": "{version}",\n  "types": {{\n' + ",\n".join(lines) + "\n  }\n}\n"


async def _ask(plane: cluster.ControlPlane) -> str:
    async with plane.api() as api:
        return await asked(api)


def main() -> None:
    with (
        tempfile.TemporaryDirectory(prefix="windlass-") as folder,
        contextlib.closing(cluster.start(Path(folder) / "plane", cluster.Settings())) as plane,
    ):
        FILE.write_text(asyncio.run(_ask(plane)))


if __name__ == "__main__":
    main()
