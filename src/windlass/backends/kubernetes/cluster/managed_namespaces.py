"""Tells in which namespaces Windlass runs jobs. An admission policy holds the operator's writes to the same ones."""

from __future__ import annotations

from collections.abc import Mapping

from windlass.jobs.kubernetes.labels import MANAGED, SYSTEM_NAMESPACES


def unmanaged(namespace: str, labels: Mapping[str, str] | None, *, only_labelled: bool) -> str:
    """Returns why nothing runs in a namespace with these labels; "" if it is managed.

    None: the namespace is not listed yet, so that neither its label nor the queue of its jobs is known.
    """
    if namespace in SYSTEM_NAMESPACES:
        return f"nothing runs in the namespace {namespace}, which belongs to Kubernetes"
    if labels is None:
        return f"the namespace {namespace} is not listed yet"
    label = labels.get(MANAGED, "")
    if label == "true" or (not label and not only_labelled):
        return ""
    return f"the namespace {namespace} is not managed: its label {MANAGED} must be true"
