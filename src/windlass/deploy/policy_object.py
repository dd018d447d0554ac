"""An admission policy, or the binding of one, as an object of an installation."""

from __future__ import annotations

from collections.abc import Mapping

from windlass.deploy.labels import labels_of
from windlass.jobs.kubernetes.job_admission import GROUP, VERSION
from windlass.jobs.kubernetes.manifest_reader import Manifest


def policy_object(kind: str, name: str, spec: Mapping[str, object]) -> Manifest:
    """The object of a kind of admissionregistration.k8s.io."""
    metadata = {"name": name, "labels": labels_of("admission")}
    return {"apiVersion": f"{GROUP}/{VERSION}", "kind": kind, "metadata": metadata, "spec": dict(spec)}
