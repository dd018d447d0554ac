"""Manifests of every kind, and the API paths of such objects."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import yaml

from windlass.backends.kubernetes.client.resources import path
from windlass.deploy.install.resources import KINDS

FOLDER = Path(__file__).parents[1] / "samples"
_KINDS = {(kind.api_version, kind.kind): kind for kind in KINDS}


def samples() -> list[dict[str, Any]]:
    """Manifests with the fields that the samples of both operators and of the trainer use. None is a copy."""
    return [each for file in sorted(FOLDER.glob("*.yaml")) for each in yaml.safe_load_all(file.read_text())]


def sample(kind: str, name: str = "") -> dict[str, Any]:
    return next(each for each in samples() if each["kind"] == kind and name in ("", each["metadata"]["name"]))


def place(manifest: dict[str, Any], name: str = "", subresource: str = "") -> str:
    """API path of objects of this kind, or of the object with a name."""
    kind = _KINDS[manifest["apiVersion"], manifest["kind"]]
    return path(kind, manifest["metadata"].get("namespace"), name, subresource)


def samples_of(definitions: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Manifests of the kinds that these definitions describe."""
    specs = [each["spec"] for each in definitions]
    kinds = {(f"{s['group']}/{each['name']}", s["names"]["kind"]) for s in specs for each in s["versions"]}
    return [each for each in samples() if (each["apiVersion"], each["kind"]) in kinds]


def contains(now: object, before: object) -> bool:
    """Whether a value has all that it had before: other definitions may add defaults."""
    if isinstance(before, dict):
        return isinstance(now, dict) and all(name in now and contains(now[name], before[name]) for name in before)
    if isinstance(before, list | tuple):
        is_as_long = isinstance(now, list | tuple) and len(now) == len(before)
        return is_as_long and all(map(contains, now, before))
    return now == before
