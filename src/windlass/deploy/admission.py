"""Admission policies of an installation, in CEL: bounds of the operator's writes, and records of users' changes.

The API server evaluates them itself, without a webhook. Roles cannot express these bounds: they allow a verb in every
namespace or in named ones.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from windlass.deploy.kubeflow import GROUP as KUBEFLOW
from windlass.deploy.kubeflow import kubeflow_kinds
from windlass.deploy.labels import NAME, NAME_LABEL
from windlass.deploy.own_kinds import GROUP
from windlass.deploy.policy_object import policy_object
from windlass.deploy.trainer import GROUP as TRAINER
from windlass.jobs.kubernetes.job_admission import resource_rule
from windlass.jobs.kubernetes.labels import GENERATION, MANAGED, SYSTEM_NAMESPACES
from windlass.jobs.kubernetes.manifest_reader import Manifest
from windlass.jobs.kubernetes.operator_names import OPERATOR
from windlass.jobs.kubernetes.pods.pod_assembly import JOB_NAME, SCHEDULER

WRITES = f"{OPERATOR}-writes"
RECORD = f"{NAME}-audit"
"""Name of the policy, and first part of its annotation in the audit log: `windlass-audit/change`."""


def admission_objects(namespace: str, managed_namespaces: str) -> list[Manifest]:
    """Policies and their bindings. `namespace`: the operator's; `managed_namespaces`: "all" or "labelled"."""
    bounds = _policy(
        WRITES,
        rules=[
            resource_rule("", ("pods", "pods/status", "pods/binding", "pods/eviction", "configmaps", "secrets"), "*"),
        ],
        matchConditions=[_operator_condition(namespace)],
        variables=_bounds_variables(namespace, managed_namespaces),
        validations=_bounds(),
    )
    record = _policy(
        RECORD,
        rules=[
            resource_rule(GROUP, ("queues", "schedulingpolicies", "reservations"), "CREATE", "UPDATE", "DELETE"),
            resource_rule(GROUP, ("trainingjobs", "crontrainingjobs"), "UPDATE", "DELETE"),
            resource_rule(KUBEFLOW, tuple(each.plural for each in kubeflow_kinds()), "UPDATE", "DELETE"),
            resource_rule(TRAINER, ("trainjobs",), "UPDATE", "DELETE"),
        ],
        variables=_record_variables(),
        auditAnnotations=[{"key": "change", "valueExpression": _CHANGE}],
    )
    return [bounds, _binding(WRITES, "Deny"), record, _binding(RECORD, "Audit")]


def _bounds_variables(namespace: str, managed_namespaces: str) -> list[dict[str, str]]:
    label = f"namespaceObject.metadata.?labels[?'{MANAGED}'].orValue('')"
    system = ", ".join(f"'{each}'" for each in SYSTEM_NAMESPACES)
    return [
        _variable("own", f"request.namespace == '{namespace}'"),
        _variable("label", label),
        _variable("subresource", "has(request.subResource) ? request.subResource : ''"),
        _variable("name", "has(request.name) ? request.name : ''"),
        _variable(
            "managed",
            f"!variables.own && !(request.namespace in [{system}]) && "
            f"(variables.label == 'true' || (variables.label == '' && '{managed_namespaces}' == 'all'))",
        ),
        _variable(
            "scheduler",
            "(request.operation == 'CREATE' ? object : oldObject).spec.?schedulerName.orValue('')",
        ),
        _variable(
            "isTakenOver",
            f"request.operation == 'DELETE' && oldObject.metadata.?labels[?'{JOB_NAME}'].hasValue()",
        ),
        _variable(
            "isPlacedElsewhere",
            "variables.subresource == '' && request.operation in ['CREATE', 'DELETE'] && "
            f"(request.operation == 'CREATE' ? object : oldObject).metadata.?labels[?'{GENERATION}'].hasValue()",
        ),
        _variable("isPod", "request.resource.resource == 'pods' && variables.subresource in ['', 'status']"),
        _variable("isOwnSecret", f"request.resource.resource == 'secrets' && variables.name.startsWith('{NAME}-')"),
        _variable(
            "isOwnPod",
            "request.resource.resource == 'pods' && variables.subresource == '' && request.operation == 'UPDATE' && "
            f"oldObject.metadata.?labels[?'{NAME_LABEL}'].orValue('') == '{NAME}' && object.spec == oldObject.spec",
        ),
    ]


def _bounds() -> list[Manifest]:
    """In its own namespace the operator writes its key and labels its pods; elsewhere it writes for jobs only."""
    what = "'the operator may not write ' + request.resource.resource + ' in the namespace ' + request.namespace"
    refusals = [
        ("variables.managed || variables.own", f"{what} + ', which is not managed (label {MANAGED})'"),
        (
            "!variables.own || variables.isOwnSecret || variables.isOwnPod",
            f"{what} + ', its own, but its keys and the labels of its pods'",
        ),
        (
            (
                f"variables.own || !variables.isPod || variables.scheduler == '{SCHEDULER}' || "
                "variables.isTakenOver || variables.isPlacedElsewhere"
            ),
            (
                f"'the operator may not write pods of another scheduler than {SCHEDULER}: it creates and deletes only "
                f"those of its jobs (label {GENERATION}), and deletes those of jobs that it has taken over "
                f"(label {JOB_NAME})'"
            ),
        ),
    ]
    return [
        {"expression": allowed, "messageExpression": message, "reason": "Forbidden"} for allowed, message in refusals
    ]


def _record_variables() -> list[dict[str, str]]:
    def suspends(thing: str) -> str:
        own = f"{thing}.?spec.?suspend"
        return f"{thing} != null && {own}.orValue({thing}.?spec.?runPolicy.?suspend.orValue(false)) == true"

    def cancels(thing: str) -> str:
        return f"{thing} != null && {thing}.metadata.?annotations[?'windlass.dev/cancel'].hasValue()"

    return [
        _variable("wasSuspended", suspends("oldObject")),
        _variable("isSuspended", suspends("object")),
        _variable("wasCancelled", cancels("oldObject")),
        _variable("isCancelled", cancels("object")),
        _variable("isShared", "request.resource.resource in ['queues', 'schedulingpolicies', 'reservations']"),
        _variable("isSame", "request.operation == 'UPDATE' && object.spec == oldObject.spec"),
    ]


_CHANGE = """\
variables.isShared ? (variables.isSame ? '' : request.operation == 'UPDATE' ? 'changed' :
  request.operation == 'CREATE' ? 'created' : 'deleted') :
request.operation == 'DELETE' ? 'deleted' :
variables.isCancelled && !variables.wasCancelled ? 'cancelled' :
variables.isSuspended && !variables.wasSuspended ? 'suspended' :
variables.wasSuspended && !variables.isSuspended ? 'resumed' :
variables.isSame ? '' : 'changed'"""
"""One word for what a user did; an empty one records nothing. The audit event names the user and the object."""


def _operator_condition(namespace: str) -> dict[str, str]:
    account = f"system:serviceaccount:{namespace}:{OPERATOR}"
    return {"name": "operator", "expression": f"request.userInfo.username == '{account}'"}


def _policy(name: str, *, rules: Sequence[Mapping[str, object]], **spec: object) -> Manifest:
    constraints = {"resourceRules": list(rules)}
    whole = {"failurePolicy": "Fail", "matchConstraints": constraints, **spec}
    return policy_object("ValidatingAdmissionPolicy", name, whole)


def _binding(name: str, action: str) -> Manifest:
    spec = {"policyName": name, "validationActions": [action]}
    return policy_object("ValidatingAdmissionPolicyBinding", name, spec)


def _variable(name: str, expression: str) -> dict[str, str]:
    return {"name": name, "expression": expression}
