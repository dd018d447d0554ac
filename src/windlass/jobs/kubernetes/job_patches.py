"""Merge patches of a job's object that cancel, suspend and resume the job, and change its priority."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from windlass.jobs.kubernetes.labels import CANCEL
from windlass.jobs.kubernetes.train_runtimes import TRAIN_JOB

NOTEBOOK = "Notebook"
STOPPED = "kubeflow-resource-stopped"
"""An annotation of Notebooks, with any value: it is stopped. Source: kubeflow/kubeflow, notebook-controller."""
_WITHOUT_RUN_POLICY = ("TrainingJob", TRAIN_JOB, NOTEBOOK)


def has_run_policy(kind: str) -> bool:
    """Whether a kind has the fields of its operation in `spec.runPolicy`, and not in `spec` itself."""
    return kind not in _WITHOUT_RUN_POLICY


def action_patch(verb: str, kind: str, by: str) -> dict[str, Any]:
    """The patch of the verbs cancel, suspend and resume. `by`: the user."""
    if verb == "cancel":
        return {"metadata": {"annotations": {CANCEL: by or "unknown user"}}}
    if kind == NOTEBOOK:
        return {"metadata": {"annotations": {STOPPED: (by or "unknown user") if verb == "suspend" else None}}}
    suspend = {"suspend": verb == "suspend"}
    return {"spec": {"runPolicy": suspend} if has_run_policy(kind) else suspend}


def is_stopped(manifest: Mapping[str, Any]) -> bool:
    """Whether a Notebook has the annotation by which it is stopped."""
    return STOPPED in (manifest["metadata"].get("annotations") or {})


def priority_patch(priority: int) -> dict[str, Any]:
    """The patch of a TrainingJob's number. Other kinds name a PriorityClass."""
    return {"spec": {"priority": priority}}
