"""What every object of an installation is labelled with."""

from __future__ import annotations

from windlass import __version__

NAME = "windlass"
VERSION = "app.kubernetes.io/version"


def labels_of(component: str) -> dict[str, str]:
    """The recommended labels of Kubernetes: an installation finds by them what is its own, and of which release."""
    return {**selector_of(component), "app.kubernetes.io/part-of": NAME, VERSION: __version__}


def selector_of(component: str) -> dict[str, str]:
    """Those that never change: pods are selected by them."""
    return {"app.kubernetes.io/name": NAME, "app.kubernetes.io/component": component}
