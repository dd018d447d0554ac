"""The admission policies of jobs and their bindings (`jobs.kubernetes.job_admission`)."""

from __future__ import annotations

from windlass.deploy.policy_object import policy_object
from windlass.jobs.kubernetes.job_admission import (
    POLICY,
    USER_POLICY,
    binding_spec,
    policy_spec,
    user_binding_spec,
    user_policy_spec,
)
from windlass.jobs.kubernetes.manifest_reader import Manifest


def job_policies() -> list[Manifest]:
    """The policy that guards users and queues, then its binding."""
    return [
        policy_object("ValidatingAdmissionPolicy", POLICY, policy_spec()),
        policy_object("ValidatingAdmissionPolicyBinding", POLICY, binding_spec()),
    ]


def user_policies() -> list[Manifest]:
    """The policy that writes users, then its binding; Kubernetes serves their kinds from version 1.36 on."""
    return [
        policy_object("MutatingAdmissionPolicy", USER_POLICY, user_policy_spec()),
        policy_object("MutatingAdmissionPolicyBinding", USER_POLICY, user_binding_spec()),
    ]
