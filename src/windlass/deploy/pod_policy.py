"""The ValidatingAdmissionPolicy that asks who may name a queue in a pod of another controller.

Most of these pods are created by a controller, so that the user of the request says nothing about the user for whom it
acts. Then the ServiceAccount of the pod must have the verb `use` on the queue. In Kubernetes a user who may create pods
in a namespace, directly or by a controller, acts with the rights of each of its ServiceAccounts, so that such a grant
is one to the users of the namespace. For a pod without a controller the right of the creator suffices. The queue of the
namespace and `default` are free, as for jobs (`jobs.kubernetes.job_admission`).
"""

from __future__ import annotations

from windlass.core.model.job import DEFAULT_QUEUE
from windlass.deploy.labels import NAME
from windlass.deploy.policy_object import policy_object
from windlass.jobs.kubernetes.job_admission import QUEUE_GROUP, QUEUES, USE, resource_rule
from windlass.jobs.kubernetes.labels import GENERATION, QUEUE, ROLE
from windlass.jobs.kubernetes.manifest_reader import Manifest
from windlass.jobs.kubernetes.pods.pod_assembly import SCHEDULER

POD_POLICY = f"{NAME}-pods"
"""Name of the policy and of its binding."""
_NEED = f"that needs the verb {USE} on {QUEUES}.{QUEUE_GROUP}"


def pod_policies() -> list[Manifest]:
    """The policy, then its binding."""
    return [
        policy_object("ValidatingAdmissionPolicy", POD_POLICY, _policy_spec()),
        policy_object("ValidatingAdmissionPolicyBinding", POD_POLICY, _binding_spec()),
    ]


def _policy_spec() -> Manifest:
    """`spec` of the policy, with the API server's defaults written out. A write to the status may change labels too."""
    rule = {**resource_rule("", ("pods", "pods/status"), "CREATE", "UPDATE"), "scope": "Namespaced"}
    return {
        "failurePolicy": "Fail",
        "matchConstraints": {"matchPolicy": "Equivalent", "resourceRules": [rule]},
        "matchConditions": [{"name": "scheduler", "expression": f'object.spec.schedulerName == "{SCHEDULER}"'}],
        "variables": [{"name": name, "expression": text} for name, text in _variables().items()],
        "validations": [{"expression": _ALLOWED, "messageExpression": _MESSAGE, "reason": "Forbidden"}],
    }


def _binding_spec() -> Manifest:
    return {"policyName": POD_POLICY, "validationActions": ["Deny"]}


def _variables() -> dict[str, str]:
    return {
        "queue": _queue_of("object"),
        "queueBefore": f'request.operation == "CREATE" ? "" : {_queue_of("oldObject")}',
        "ownQueue": f'namespaceObject.metadata.?labels[?"{QUEUE}"].orValue("")',
        "isControlled": "object.metadata.?ownerReferences.orValue([]).exists(o, o.?controller.orValue(false))",
        "account": 'object.spec.?serviceAccountName.orValue("default")',
    }


def _queue_of(pod: str) -> str:
    """The queue that a pod names. A member of our own jobs names none: its label has no effect (`membership`)."""
    labels = f"{pod}.metadata.?labels"
    is_member = f'{labels}[?"{GENERATION}"].hasValue() || {labels}[?"{ROLE}"].hasValue()'
    return f'{is_member} ? "" : {labels}[?"{QUEUE}"].orValue("")'


def _may_use(authorizer: str) -> str:
    resource = f'group("{QUEUE_GROUP}").resource("{QUEUES}").namespace(request.namespace)'
    return f'{authorizer}.{resource}.name(variables.queue).check("{USE}").allowed()'


_ALLOWED = (
    f'variables.queue in ["", "{DEFAULT_QUEUE}", variables.ownQueue, variables.queueBefore] || '
    f"(!variables.isControlled && {_may_use('authorizer')}) || "
    f"{_may_use('authorizer.serviceAccount(request.namespace, variables.account)')}"
)
_MESSAGE = (
    '(variables.isControlled ? "" : request.userInfo.username + " may not, and ") + '
    '"the ServiceAccount " + variables.account + " of the pod may not use the queue " + variables.queue + '
    f'" in the namespace " + request.namespace + ": {_NEED}"'
)
