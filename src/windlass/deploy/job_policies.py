"""The admission policy of jobs and its binding (`jobs.kubernetes.job_admission`)."""

from __future__ import annotations

from windlass.deploy.labels import labels_of
from windlass.jobs.kubernetes.job_admission import GROUP, POLICY, VERSION, binding_spec, policy_spec
from windlass.jobs.kubernetes.manifest_reader import Manifest


def job_policies() -> list[Manifest]:
    """The policy, then its binding."""
    return [
        _object("ValidatingAdmissionPolicy", policy_spec()),
        _object("ValidatingAdmissionPolicyBinding", binding_spec()),
    ]


def _object(kind: str, spec: Manifest) -> Manifest:
    about = {"name": POLICY, "labels": labels_of("admission")}
    return {"apiVersion": f"{GROUP}/{VERSION}", "kind": kind, "metadata": about, "spec": spec}
