"""What every object of an installation is labelled with."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from windlass import __version__

NAME = "windlass"
VERSION = "app.kubernetes.io/version"


def labels_of(component: str) -> dict[str, str]:
    """The recommended labels of Kubernetes: an installation finds by them what is its own, and of which release."""
    return {**selector_of(component), "app.kubernetes.io/part-of": NAME, VERSION: __version__}


def selector_of(component: str) -> dict[str, str]:
    """Those that never change: pods are selected by them."""
    return {"app.kubernetes.io/name": NAME, "app.kubernetes.io/component": component}


def is_ours(manifest: Mapping[str, Any]) -> bool:
    """Whether an object is of an installation of ours."""
    labels = manifest["metadata"].get("labels") or {}
    return labels.get("app.kubernetes.io/part-of") == NAME
