"""What every object of an installation is labelled with."""

from __future__ import annotations

NAME = "windlass"


def labels_of(component: str) -> dict[str, str]:
    """The recommended labels of Kubernetes; an installation finds by them what is its own."""
    return {**selector_of(component), "app.kubernetes.io/part-of": NAME}


def selector_of(component: str) -> dict[str, str]:
    """Those that never change: pods are selected by them."""
    return {"app.kubernetes.io/name": NAME, "app.kubernetes.io/component": component}
