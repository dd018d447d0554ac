"""The ValidatingAdmissionPolicy by which the API server guards what a job says about its owner and its queues.

On Kubernetes 1.36 and newer a MutatingAdmissionPolicy writes the annotation where a creator has not, so that every job
has its user.

The API server knows the user of a request, and the operator does not. So the policy lets an annotation name its user
only as that user creates the object, never lets it change, and asks the authorizer whether the user may use the queue
that the object names. The operator trusts the annotation only while the policy in the cluster is this one
(`backends.kubernetes.cluster.admission_guard`). Sources: k8s.io/api v0.36, admissionregistration/v1; CEL in Kubernetes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from windlass.core.model.job import DEFAULT_QUEUE
from windlass.jobs.kubernetes.kinds.registry import KINDS
from windlass.jobs.kubernetes.kinds.trainingjob import KIND as TRAINING_JOB
from windlass.jobs.kubernetes.labels import CANCEL, KUEUE_QUEUE, KUEUE_QUEUE_NAME, KUEUE_QUEUE_RULE, QUEUE, USER
from windlass.jobs.kubernetes.manifest_reader import Manifest
from windlass.jobs.kubernetes.schedules import cron_training_job

GROUP, VERSION = "admissionregistration.k8s.io", "v1"
POLICY = "windlass-jobs"
"""Name of the policy and of its binding."""
USER_POLICY = "windlass-job-users"
"""Name of the policy that writes the user, and of its binding."""
QUEUE_GROUP, QUEUES, USE = "windlass.dev", "queues", "use"
"""The permission to name a queue in a job: the verb on queues, in the namespace of the job."""
_OBJECT = "OBJECT"
"""Stands for `object` or `oldObject` in an expression."""
_CREATES = 'request.operation == "CREATE"'
_NAME = "request.userInfo.username"
_IS_RUN = (
    f'object.metadata.?ownerReferences.orValue([]).exists(o, o.kind == "{cron_training_job.KIND}") && '
    f'authorizer.group("windlass.dev").resource("{cron_training_job.PLURAL}").check("{cron_training_job.RUN}").allowed()'
)
"""Whether the operator creates a run of a schedule, which names the schedule's user and is in the schedule's queue."""


def policy_spec() -> Manifest:
    """`spec` of the policy, with the API server's defaults written out, so that it can be compared."""
    return {
        "failurePolicy": "Fail",
        "matchConstraints": {"matchPolicy": "Equivalent", "resourceRules": _rules("CREATE", "UPDATE")},
        "variables": [{"name": name, "expression": text} for name, text in _variables().items()],
        "validations": _validations(),
    }


def binding_spec() -> Manifest:
    """`spec` of the policy's binding: for every namespace."""
    return {"policyName": POLICY, "validationActions": ["Deny"]}


def user_policy_spec() -> Manifest:
    """`spec` of the MutatingAdmissionPolicy that writes the user of a new job."""
    path = f"/metadata/annotations/{USER.replace('/', '~1')}"
    add = f'JSONPatch{{op: "add", path: "{path}", value: {_NAME}}}'
    whole = f'JSONPatch{{op: "add", path: "/metadata/annotations", value: {{"{USER}": {_NAME}}}}}'
    unnamed = _annotation(USER).replace(_OBJECT, "object")
    return {
        "failurePolicy": "Fail",
        "reinvocationPolicy": "Never",
        "matchConstraints": {"matchPolicy": "Equivalent", "resourceRules": _rules("CREATE")},
        "matchConditions": [
            {"name": "unnamed", "expression": f'{unnamed} == ""'},
            {"name": "of-a-user", "expression": f"!({_IS_RUN})"},
        ],
        "mutations": [
            {
                "patchType": "JSONPatch",
                "jsonPatch": {"expression": f"has(object.metadata.annotations) ? [{add}] : [{whole}]"},
            }
        ],
    }


def user_binding_spec() -> Manifest:
    """`spec` of that policy's binding: for every namespace."""
    return {"policyName": USER_POLICY}


def is_same_spec(found: Mapping[str, Any], expected: Mapping[str, Any]) -> bool:
    """Tells whether a `spec` from the API server has the effect of one of these: equal but for empty fields."""
    return bool(_without_empty(found) == _without_empty(expected))


def _without_empty(value: Any) -> Any:
    if isinstance(value, Mapping):
        kept = {name: _without_empty(each) for name, each in value.items()}
        return {name: each for name, each in kept.items() if each not in (None, "", {}, [])}
    return [_without_empty(each) for each in value] if isinstance(value, list) else value


def _rules(*operations: str) -> list[Manifest]:
    """All versions of the job kinds, by API group."""
    plurals: dict[str, set[str]] = {}
    for kind in KINDS:
        plurals.setdefault(kind.api_version.partition("/")[0], set()).add(kind.plural)
    plurals.setdefault(QUEUE_GROUP, set()).add(cron_training_job.PLURAL)
    rules = [resource_rule(group, sorted(names), *operations) for group, names in sorted(plurals.items())]
    return [{**rule, "scope": "Namespaced"} for rule in rules]


def resource_rule(group: str, resources: Sequence[str], *operations: str) -> Manifest:
    """Returns a rule by which a policy matches operations on resources, in all versions of their group."""
    return {
        "apiGroups": [group],
        "apiVersions": ["*"],
        "operations": list(operations),
        "resources": list(resources),
    }


def _variables() -> dict[str, str]:
    """Texts of the object and of the one before an update; "" for an absent text."""
    texts = {"user": _annotation(USER), "cancel": _annotation(CANCEL), "queues": _queues()}
    nothing = {"user": '""', "cancel": '""', "queues": "[]"}
    now = {name: text.replace(_OBJECT, "object") for name, text in texts.items()}
    before = {
        f"{name}Before": f"{_CREATES} ? {nothing[name]} : {text.replace(_OBJECT, 'oldObject')}"
        for name, text in texts.items()
    }
    return {**now, **before, "isRun": f"{_CREATES} && {_IS_RUN}"}


def _annotation(name: str) -> str:
    return f'string(dyn({_OBJECT}).metadata.?annotations[?"{name}"].orValue(""))'


def _queues() -> str:
    """Queues by all fields that name one in some kind, and by the label."""
    fields = ("?spec.?queue", "?spec.?runPolicy.?schedulingPolicy.?queue", f'metadata.?labels[?"{QUEUE}"]')
    template = ("?spec.?jobTemplate.?spec.?queue", f'?spec.?jobTemplate.?metadata.?labels[?"{QUEUE}"]')
    return "[" + ", ".join(f'string(dyn({_OBJECT}).{field}.orValue(""))' for field in (*fields, *template)) + "]"


def _kueue_queues() -> str:
    """Queues of Kueue by the labels of the object and of its job."""
    places = ("metadata", "?spec")
    return "[" + ", ".join(f'string(dyn(object).{each}.?labels[?"{KUEUE_QUEUE}"].orValue(""))' for each in places) + "]"


def _validations() -> Sequence[Manifest]:
    is_own = f'q in ["", "{DEFAULT_QUEUE}", namespaceObject.metadata.?labels[?"{QUEUE}"].orValue("")]'
    may_use = (
        f'authorizer.group("{QUEUE_GROUP}").resource("{QUEUES}").namespace(request.namespace)'
        f'.name(q).check("{USE}").allowed()'
    )
    return [
        _validation(
            f'!({_CREATES}) || variables.isRun || variables.user in ["", {_NAME}]',
            f'"the annotation {USER} names " + variables.user + ", and the job is created by " + {_NAME} + '
            '": write that name, or leave the annotation out"',
        ),
        _validation(
            f"{_CREATES} || variables.user == variables.userBefore",
            f'"the annotation {USER} records who has submitted the job: it cannot be changed"',
        ),
        _validation(
            f'variables.cancel in ["", variables.cancelBefore, {_NAME}]',
            f'"the annotation {CANCEL} names who cancels the job: write " + {_NAME}',
        ),
        _validation(
            f'!({_CREATES}) || object.kind != "{TRAINING_JOB}" || '
            f'{_kueue_queues()}.all(q, q.matches("^({KUEUE_QUEUE_NAME})?$"))',
            f'"the label {KUEUE_QUEUE} {KUEUE_QUEUE_RULE}"',
        ),
        _validation(
            f"variables.isRun || variables.queues.all(q, {is_own} || q in variables.queuesBefore || {may_use})",
            f'{_NAME} + " may not use the queue " + variables.queues.filter(q, q != "").join(" or ") + '
            f'" in the namespace " + request.namespace + ": that needs the verb {USE} on {QUEUES}.{QUEUE_GROUP}"',
        ),
    ]


def _validation(expression: str, message: str) -> Manifest:
    return {"expression": expression, "messageExpression": message, "reason": "Forbidden"}
