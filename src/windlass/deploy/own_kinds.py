"""Kinds of Windlass, from the tables of job and cluster files.

Policy and reservations are objects and not a text in a ConfigMap. The API server therefore validates them as it
validates jobs, each reservation is created and deleted on its own, and permissions decide who may do that.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from windlass.deploy.definition import Definition, PrinterColumn, ScaleSubresource, Version
from windlass.deploy.pod_types import nullable_fields, partial_type
from windlass.deploy.status_schema import status_schema
from windlass.deploy.structural_schema import (
    Schema,
    array,
    closed_object,
    open_object,
    rule,
    text,
    timestamp,
    with_rules,
)
from windlass.deploy.table_schema import structural_schema
from windlass.jobs.cluster.policy_fields import POLICY, RESERVATION
from windlass.jobs.cluster.queues import QUEUE
from windlass.jobs.description.schedule_fields import NAMES as SCHEDULE_FIELDS
from windlass.jobs.field_docs.json_schema import schema, table_schema
from windlass.jobs.kubernetes.manifests.own_kinds import OWN_KINDS, TOPOLOGY
from windlass.jobs.kubernetes.schedules.cron_fields import CRON_TRAINING_JOB
from windlass.jobs.kubernetes.schedules.cron_training_job import MAX_NAME as MAX_SCHEDULE_NAME
from windlass.jobs.syntax.names import DNS_LABEL, NODE_NAME
from windlass.jobs.syntax.timestamps import PATTERN as MOMENT_PATTERN

GROUP, VERSION = "windlass.dev", "v1alpha1"
POLICY_NAME = "default"
"""Name of the only SchedulingPolicy."""
_ABOUT = {kind.name: kind.help for kind in OWN_KINDS}
_BEGIN = (
    "Earliest start, a date with a time such as 2026-11-28T08:00Z. Without a zone it is in that of the operator. "
    "A time that has passed means at once. Default: null (at once)."
)
_AGE = PrinterColumn("Age", ".metadata.creationTimestamp", "date")


def own_kinds() -> list[Definition]:
    """Definitions of the group `windlass.dev`."""
    return [_training_job(), _cron_training_job(), _queue(), _policy(), _reservation()]


def _training_job() -> Definition:
    columns = (
        PrinterColumn("State", ".status.state"),
        PrinterColumn("Reason", ".status.conditions[-1:].reason"),
        PrinterColumn("Queue", ".status.queue"),
        PrinterColumn("Attempts", ".status.attempts", "integer"),
        PrinterColumn("Step", ".status.training.step", "integer"),
        _AGE,
        PrinterColumn("Message", ".status.conditions[-1:].message", wide=True),
    )
    name = rule(
        f"self.metadata.name.matches('^{DNS_LABEL}$')",
        "metadata.name expects small letters, digits and dashes, a letter first, 63 at most: "
        "the pods' service is named by it",
    )
    workers = ".status.replicaStatuses.worker"
    version = Version(
        VERSION,
        _ABOUT["TrainingJob"],
        _job_spec(_pod),
        status_schema(),
        columns,
        (name,),
        ScaleSubresource(".spec.nodes", f"{workers}.active", f"{workers}.selector"),
    )
    return Definition(GROUP, "TrainingJob", "trainingjobs", ("tj",), (version,))


def _cron_training_job() -> Definition:
    columns = (
        PrinterColumn("Schedule", ".spec.schedule"),
        PrinterColumn("Timezone", ".spec.timeZone"),
        PrinterColumn("Suspend", ".spec.suspend", "boolean"),
        PrinterColumn("Active", ".status.active[0].name"),
        PrinterColumn("Last Schedule", ".status.lastScheduleTime", "date"),
        _AGE,
        PrinterColumn("Policy", ".spec.concurrencyPolicy", wide=True),
        PrinterColumn("Last Success", ".status.lastSuccessfulTime", "date", wide=True),
        PrinterColumn("Message", ".status.conditions[-1:].message", wide=True),
    )
    name = rule(
        f"self.metadata.name.matches('^{DNS_LABEL}$') && self.metadata.name.size() <= {MAX_SCHEDULE_NAME}",
        f"metadata.name expects small letters, digits and dashes, a letter first, {MAX_SCHEDULE_NAME} at most: "
        "the name of each run begins with it",
    )
    version = Version(VERSION, _ABOUT["CronTrainingJob"], _cron_spec(), _cron_status(), columns, (name,))
    return Definition(GROUP, "CronTrainingJob", "crontrainingjobs", ("ctj",), (version,))


def _cron_spec() -> Schema:
    fields = structural_schema(table_schema(CRON_TRAINING_JOB))
    template = fields["properties"]["jobTemplate"]
    # labels and annotations are read by the API server as it creates a run
    for texts in template["properties"]["metadata"]["properties"].values():
        texts |= {"additionalProperties": text()}
        texts.pop("x-kubernetes-validations", None)
    about = template["properties"]["spec"]["description"]
    template["properties"]["spec"] = {**_job_spec(_unchecked_pod), "description": about}
    template["required"] = ["spec"]
    return {**fields, "required": ["schedule", "jobTemplate"]}


def _cron_status() -> Schema:
    reference = open_object("Reference to a TrainingJob.", name=text(), namespace=text(), uid=text())
    return open_object(
        "Observed state of the schedule.",
        lastScheduleTime=timestamp("Time of the schedule for which the last run was decided."),
        lastSuccessfulTime=timestamp("End of the last run that has succeeded."),
        active=array(reference, "Runs that have not ended."),
        conditions=array(open_object()),
        windlass=open_object("Internal state of the operator."),
    )


def _job_spec(pod: Callable[[Schema], Schema]) -> Schema:
    """Schema of the spec of a TrainingJob. `pod`: makes that of its fields for pods."""
    fields = _without_name(structural_schema(_flat(schema())))
    properties = fields["properties"]
    # CEL reads fields with one type, and fields that are an integer or a string.
    properties["array"] = {
        "description": "Not supported here; use windlass submit.",
        "x-kubernetes-int-or-string": True,
    }
    for name in SCHEDULE_FIELDS:
        del properties[name]
    # A word such as now+2hours would mean another time whenever the operator reads it.
    properties["begin"] |= {"pattern": MOMENT_PATTERN, "description": _BEGIN}
    properties["elastic"] = _ordered(properties["elastic"])
    properties["pod"] = pod(properties["pod"])
    properties["roles"] = _roles(properties["roles"], pod)
    fix = "nodes and elastic are in the roles then"
    rules = (
        rule("!has(self.array)", "array is many jobs; hand it in with windlass submit, which makes an object of each"),
        rule("!has(self.nodes) || !has(self.elastic)", "nodes and elastic say the same thing; keep one"),
        rule("!has(self.roles) || !has(self.nodes)", f"nodes beside roles: {fix}"),
        rule("!has(self.roles) || !has(self.elastic)", f"elastic beside roles: {fix}"),
        rule(
            "!has(self.restarts) || !has(self.restart) || !has(self.restart.user)",
            "restarts and restart.user say the same thing; keep one",
        ),
    )
    what = {"anyOf": [{"required": ["command"]}, {"required": ["roles"]}]}
    return with_rules({**fields, **what}, *rules)


def _roles(roles: Schema, pod: Callable[[Schema], Schema]) -> Schema:
    role = roles["additionalProperties"]
    role["properties"]["elastic"] = _ordered(role["properties"]["elastic"])
    role["properties"]["pod"] = pod(role["properties"]["pod"])
    one_size = rule("!has(self.replicas) || !has(self.elastic)", "replicas and elastic say the same thing; keep one")
    one = rule(
        "self.filter(name, has(self[name].elastic)).size() <= 1",
        "only one role may be elastic; give the others replicas",
    )
    return with_rules({**roles, "maxProperties": 100, "additionalProperties": with_rules(role, one_size)}, one)


def _pod(field: Schema) -> Schema:
    """The field of a pod template that is merged over the job's own."""
    part = nullable_fields(partial_type("PodTemplateSpec"))  # null removes a value
    return {"description": field["description"], **part}


def _unchecked_pod(field: Schema) -> Schema:
    """The same field in a template, checked when a run is created: this definition stays small."""
    return open_object(field["description"])


def _ordered(elastic: Schema) -> Schema:
    return with_rules(elastic, rule("self.min <= self.max", "min must be at most max"))


def _queue() -> Definition:
    columns = (
        PrinterColumn("Parent", ".spec.parent"),
        PrinterColumn("GPUs", ".spec.quota.gpu", "integer"),
        PrinterColumn("Weight", ".spec.weight", "integer"),
        _AGE,
    )
    own = rule("!has(self.spec.parent) || self.spec.parent != self.metadata.name", "parent is the queue itself")
    version = Version(
        VERSION,
        _ABOUT["Queue"],
        _bounded(_without_name(structural_schema(table_schema(QUEUE))), "parent"),
        _summary(),
        columns,
        (own,),
    )
    return Definition(GROUP, "Queue", "queues", ("wlq",), (version,), namespaced=False)


def _policy() -> Definition:
    level, labels = TOPOLOGY.table
    levels = array(
        closed_object(
            {
                "level": text(level.help, pattern=f"^{NODE_NAME}$"),
                "labels": array(text(minLength=1), labels.help, minItems=1),
            },
            required=("level", "labels"),
        ),
        TOPOLOGY.help,
        maxItems=16,
    )
    fields = structural_schema(table_schema(POLICY))
    fields["properties"]["topology"] = levels
    only = rule(f"self.metadata.name == '{POLICY_NAME}'", f"there is one policy for a cluster; call it {POLICY_NAME}")
    columns = (PrinterColumn("Order", ".spec.order"), PrinterColumn("Preempt", ".spec.preempt", "boolean"), _AGE)
    version = Version(VERSION, _ABOUT["SchedulingPolicy"], fields, _summary(), columns, (only,))
    return Definition(GROUP, "SchedulingPolicy", "schedulingpolicies", ("wlp",), (version,), namespaced=False)


def _reservation() -> Definition:
    columns = (
        PrinterColumn("Start", ".spec.start"),
        PrinterColumn("End", ".spec.end"),
        PrinterColumn("Reason", ".spec.reason"),
        _AGE,
    )
    fields = _without_name(structural_schema(table_schema(RESERVATION)))
    version = Version(
        VERSION,
        _ABOUT["Reservation"],
        {**fields, "required": ["nodes", "start", "end"]},
        _summary(),
        columns,
    )
    return Definition(GROUP, "Reservation", "reservations", ("wlr",), (version,), namespaced=False)


def _summary() -> Schema:
    return open_object("Status, written by the scheduler.", conditions=array(open_object()), message=text())


def _without_name(fields: Schema) -> Schema:
    """The fields without the name, which an object has in its metadata."""
    return {**fields, "properties": {name: each for name, each in fields["properties"].items() if name != "name"}}


def _bounded(fields: Schema, name: str) -> Schema:
    """The schema with a maximum length for one text, so that a rule can read it."""
    return {**fields, "properties": {**fields["properties"], name: {**fields["properties"][name], "maxLength": 253}}}


def _flat(described: Mapping[str, Any]) -> dict[str, Any]:
    """A JSON Schema without constraints between its fields, which the definition states as rules."""
    return {name: part for name, part in described.items() if name not in ("oneOf", "not", "$schema", "title")}
