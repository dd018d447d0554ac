"""Kubernetes labels of every object of an installation."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from windlass import __version__

NAME = "windlass"
NAME_LABEL = "app.kubernetes.io/name"
_PART_OF = "app.kubernetes.io/part-of"
VERSION = "app.kubernetes.io/version"


def labels_of(component: str) -> dict[str, str]:
    """The recommended labels of Kubernetes (`app.kubernetes.io/…`) for a component, with the version of Windlass."""
    return {**selector_of(component), _PART_OF: NAME, VERSION: __version__}


def selector_of(component: str) -> dict[str, str]:
    """Labels that never change, for selectors of pods."""
    return {NAME_LABEL: NAME, "app.kubernetes.io/component": component}


def is_ours(manifest: Mapping[str, Any]) -> bool:
    """Whether an object belongs to an installation of Windlass."""
    labels = manifest["metadata"].get("labels") or {}
    return labels.get(_PART_OF) == NAME
