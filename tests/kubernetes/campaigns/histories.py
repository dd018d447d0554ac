"""Histories made by hand, for tests of the judge: manifests as the API server returns them, and their observations."""

from __future__ import annotations

import itertools
from typing import Any

from .cluster_view import ENDS, GANG, GENERATION, GPU, SIZE, Observation, Verb
from .judge import Judge

Manifest = dict[str, Any]


class History:
    """Observations of one judge, each `step` seconds after the last. Resource versions grow with each object."""

    def __init__(self, step: float = 0.1) -> None:
        self.judge = Judge()
        self._step, self._now = step, 0.0
        self._versions = itertools.count(1)

    def seen(self, *manifests: Manifest) -> None:
        for each in manifests:
            self.observe(Verb.SEEN, each["kind"], each)

    def gone(self, manifest: Manifest) -> None:
        self.observe(Verb.GONE, manifest["kind"], manifest)

    def passes(self, seconds: float) -> None:
        """Time passes without another observation."""
        self.observe(Verb.TIME)
        self._now += seconds
        self.observe(Verb.TIME)

    def observe(self, verb: Verb, kind: str = "", *manifests: Manifest) -> None:
        self._now += self._step
        for each in manifests:
            each["metadata"]["resourceVersion"] = str(next(self._versions))
        self.judge.observe(Observation(self._now, verb, kind, manifests))

    def rules(self) -> set[str]:
        """Names of the rules that are violated so far."""
        return {rule for rule, _ in self.judge.violations}

    def rules_at_the_end(self) -> set[str]:
        self.judge.close()
        return self.rules()


def node(name: str = "n1", devices: int = 4, *, ready: bool = True) -> Manifest:
    conditions = [{"type": "Ready", "status": "True" if ready else "Unknown"}]
    status = {"allocatable": {GPU: str(devices)}, "conditions": conditions}
    return {"kind": "Node", "metadata": {"name": name, "uid": f"uid-of-{name}"}, "status": status}


def job(name: str = "digits", size: int = 2, phase: str = "Queued", *conditions: str, **more: Any) -> Manifest:
    """A TrainingJob whose program succeeds. `more`: fields of its status."""
    about = {"name": name, "uid": f"uid-of-{name}", "annotations": {SIZE: str(size), ENDS: "Succeeded"}}
    true = [{"type": each, "status": "True"} for each in conditions]
    return {
        "kind": "TrainingJob",
        "metadata": about,
        "status": {"windlass": {"phase": phase}, "conditions": true, **more},
    }


def pod(name: str, on: str = "", phase: str = "Pending", *, of: str = "digits", generation: int = 1) -> Manifest:
    """A pod of a job, with one device."""
    owner = {"uid": f"uid-of-{of}", "kind": "TrainingJob", "name": of, "controller": True}
    about = {
        "name": name,
        "uid": f"uid-of-{name}-{generation}",
        "labels": {GENERATION: str(generation)},
        "ownerReferences": [owner],
    }
    return {"kind": "Pod", "metadata": about, "spec": _spec(on), "status": {"phase": phase}}


def group_pod(name: str, on: str = "", phase: str = "Pending", *, gang: str = "group", size: int = 2) -> Manifest:
    """A pod without an owner, of a gang of `size`, whose program succeeds."""
    annotations = {GANG: gang, SIZE: str(size), ENDS: "Succeeded"}
    about = {"name": name, "uid": f"uid-of-{name}", "annotations": annotations}
    return {"kind": "Pod", "metadata": about, "spec": _spec(on), "status": {"phase": phase}}


def deleted(manifest: Manifest) -> Manifest:
    return {**manifest, "metadata": {**manifest["metadata"], "deletionTimestamp": "2026-01-01T00:00:00Z"}}


def _spec(on: str) -> Manifest:
    return {"nodeName": on, "containers": [{"resources": {"limits": {GPU: "1"}}}]}
