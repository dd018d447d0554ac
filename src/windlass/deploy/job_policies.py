"""The admission policies of jobs and their bindings (`jobs.kubernetes.job_admission`)."""

from __future__ import annotations

from windlass.deploy.labels import labels_of
from windlass.jobs.kubernetes.job_admission import (
    GROUP,
    POLICY,
    USER_POLICY,
    VERSION,
    binding_spec,
    policy_spec,
    user_binding_spec,
    user_policy_spec,
)
from windlass.jobs.kubernetes.manifest_reader import Manifest


def job_policies() -> list[Manifest]:
    """The policy that guards users and queues, then its binding."""
    return [
        _object("ValidatingAdmissionPolicy", POLICY, policy_spec()),
        _object("ValidatingAdmissionPolicyBinding", POLICY, binding_spec()),
    ]


def user_policies() -> list[Manifest]:
    """The policy that writes users, then its binding; Kubernetes serves their kinds from version 1.36 on."""
    return [
        _object("MutatingAdmissionPolicy", USER_POLICY, user_policy_spec()),
        _object("MutatingAdmissionPolicyBinding", USER_POLICY, user_binding_spec()),
    ]


def _object(kind: str, name: str, spec: Manifest) -> Manifest:
    about = {"name": name, "labels": labels_of("admission")}
    return {"apiVersion": f"{GROUP}/{VERSION}", "kind": kind, "metadata": about, "spec": spec}
