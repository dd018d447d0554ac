"""A manifest that came out of a cluster, as `kubectl get -o yaml` prints it, as that of another object. Pure."""

from __future__ import annotations

from typing import Any

from windlass.cli.cluster.acting import CANCEL
from windlass.worlds.kubernetes.stored import ANNOTATION

Manifest = dict[str, Any]
_OF_THE_SERVER = (
    "uid",
    "resourceVersion",
    "generation",
    "creationTimestamp",
    "deletionTimestamp",
    "deletionGracePeriodSeconds",
    "managedFields",
    "selfLink",
)
_OF_ITS_LIFE = (ANNOTATION, CANCEL)
"""Annotations that say what became of that object."""


def as_new(manifest: Manifest) -> Manifest:
    """Without what servers filled in, and without what became of it."""
    about = _mapping(manifest.get("metadata"))
    kept = {name: value for name, value in about.items() if name not in _OF_THE_SERVER}
    if annotations := _mapping(kept.pop("annotations", None)):
        kept["annotations"] = {name: text for name, text in annotations.items() if name not in _OF_ITS_LIFE}
    return {**{name: value for name, value in manifest.items() if name != "status"}, "metadata": kept}


def _mapping(value: Any) -> Manifest:
    return value if isinstance(value, dict) else {}
