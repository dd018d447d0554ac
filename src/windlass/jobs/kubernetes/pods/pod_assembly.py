"""Assembles a pod from its template and the additions of the operator.

Source: kubeflow/training-operator v1.9, pkg/controller.v1/common/{pod,job_controller}.go, pkg/core/pod.go.

A template is never changed and never copied whole: a pod shares the parts that it does not change with its role.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from windlass import wire
from windlass.jobs.kubernetes.foreign_schedulers import (
    SCHEDULER as SCHEDULER,  # noqa: PLC0414 - the backend finds pods by it
)
from windlass.jobs.kubernetes.gang_dialects import Dialect
from windlass.jobs.kubernetes.labels import COSCHEDULING_LABEL, OURS, ROLE, VOLCANO_GROUP, VOLCANO_TASK
from windlass.jobs.kubernetes.labels import GENERATION as GENERATION  # noqa: PLC0414 - the backend finds pods by it
from windlass.jobs.kubernetes.labels import JOB_NAME as OWN_JOB_NAME
from windlass.jobs.kubernetes.manifest_reader import Manifest, ManifestField
from windlass.jobs.kubernetes.parsed_job import Member, ParsedJob, Replicas
from windlass.launch.replica_names import replica_name

TRAINER_GROUP = "trainer.kubeflow.org/"
_JOB_SET = "jobset.sigs.k8s.io/"
_LABEL = "training.kubeflow.org/"
_MARK_LENGTH = 10
"""Hexadecimal digits of the hash of a job's uid."""
OPERATOR_NAME = f"{_LABEL}operator-name"
JOB_NAME = f"{_LABEL}job-name"
REPLICA_TYPE = f"{_LABEL}replica-type"
REPLICA_INDEX = f"{_LABEL}replica-index"
JOB_ROLE = f"{_LABEL}job-role"

EnvVar = dict[str, Any]


def env_vars(variables: Mapping[str, str]) -> list[EnvVar]:
    """Variables as a container lists them."""
    return [{"name": name, "value": value} for name, value in variables.items()]


def job_labels(parsed: ParsedJob) -> dict[str, str]:
    """Labels of every object of a job."""
    return {OPERATOR_NAME: f"{parsed.kind.lower()}-controller", JOB_NAME: parsed.name}


def selector_of(parsed: ParsedJob, role: str) -> dict[str, str]:
    """The labels by which the pods of a role are found, in whichever kind."""
    if parsed.api_version.startswith(OURS):
        return {OWN_JOB_NAME: parsed.name, ROLE: role}
    if parsed.api_version.startswith(TRAINER_GROUP):
        return job_set_labels(parsed, role)
    if parsed.api_version.endswith("/v2beta1"):
        return {OPERATOR_NAME: "mpi-operator", JOB_NAME: parsed.name, JOB_ROLE: role}
    return {**job_labels(parsed), REPLICA_TYPE: role}


def job_set_labels(parsed: ParsedJob, role: str = "") -> dict[str, str]:
    """Labels that a JobSet gives its pods, by which tools find them; `role`: the name of the job in it."""
    of_role = {f"{_JOB_SET}replicatedjob-name": role, f"{_JOB_SET}job-index": "0"} if role else {}
    return {f"{_JOB_SET}jobset-name": parsed.name, **of_role}


def replica_labels(parsed: ParsedJob, replicas: Replicas, index: int) -> dict[str, str]:
    """The same for what belongs to one replica: its pod and its service."""
    return {**job_labels(parsed), REPLICA_TYPE: replicas.role, REPLICA_INDEX: str(index)}


def metadata(parsed: ParsedJob, name: str, labels: Mapping[str, str]) -> Manifest:
    """An object's metadata, owned by the job if that is in a cluster."""
    labelled = {"labels": dict(labels)} if labels else {}
    return {"name": name, "namespace": parsed.namespace, **labelled, **_owned(parsed)}


def _owned(parsed: ParsedJob) -> Manifest:
    if not parsed.uid:
        return {}
    owner = {"apiVersion": parsed.api_version, "kind": parsed.kind, "name": parsed.name, "uid": parsed.uid}
    return {"ownerReferences": [{**owner, "blockOwnerDeletion": True, "controller": True}]}


def secret_name(parsed: ParsedJob, suffix: str) -> str:
    """Name of a job's Secret, with a hash of the job's uid if that is in a cluster: no other job has the same.

    The operator may not read Secrets. Under such a name none exists that an earlier job or a person has made.
    """
    mark = f"-{hashlib.sha256(parsed.uid.encode()).hexdigest()[:_MARK_LENGTH]}" if parsed.uid else ""
    return f"{parsed.name}-{suffix}{mark}"


def each_member(parsed: ParsedJob, pod_of: Callable[[Replicas, int], Manifest]) -> list[Member]:
    """A member for every replica, in the order of ranks; `pod_of` makes the pod of one by its index."""
    return [
        Member(replica_name(parsed.name, replicas.role, index), replicas.role, index, pod_of(replicas, index))
        for replicas in parsed.replicas
        for index in range(replicas.count)
    ]


def pod(
    parsed: ParsedJob,
    replicas: Replicas,
    index: int,
    *,
    generation: int,
    env: Sequence[EnvVar],
    only_in: str = "",
    lead: bool = False,
) -> Manifest:
    """The pod of one replica.

    `env` is appended in every container, or in the one called `only_in`. `lead`: labelled as the job's master.
    """
    labels = replica_labels(parsed, replicas, index)
    if lead:
        labels[JOB_ROLE] = "master"
    spec = with_env(pod_spec(parsed, replicas), env, only_in)
    return pod_object(parsed, replicas, replica_name(parsed.name, replicas.role, index), labels, spec, generation)


def pod_object(
    parsed: ParsedJob, replicas: Replicas, name: str, labels: Mapping[str, str], spec: Manifest, generation: int
) -> Manifest:
    """A pod of a given spec, with the labels and annotations of its template besides."""
    about = replicas.template.get("metadata") or {}
    group = {COSCHEDULING_LABEL: parsed.name} if pod_dialect(parsed, replicas) is Dialect.COSCHEDULING else {}
    labels = {**(about.get("labels") or {}), **labels, **group, GENERATION: str(generation)}
    annotations = {**(about.get("annotations") or {}), **group_annotations(parsed, replicas)}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {**metadata(parsed, name, labels), **({"annotations": annotations} if annotations else {})},
        "spec": spec,
    }


def start_variables(parsed: ParsedJob, generation: int) -> dict[str, str]:
    """Variables by which ranks take over leases of earlier generations; none for a job that is in no cluster."""
    return {wire.JOB_UID: parsed.uid, wire.GENERATION: str(generation)} if parsed.uid else {}


def pod_spec(parsed: ParsedJob, replicas: Replicas) -> Manifest:
    """The template's spec under the replicas' restart policy, for the scheduler of the job.

    Every pod has the job's PriorityClass, so that quotas of classes count it.
    """
    spec = replicas.template["spec"]
    # The kubelet does not know ExitCode: whether such a pod comes back is decided by its code. And where one lost
    # process restarts the gang, the kubelet must not restart that process alone.
    restart = (
        "Never" if replicas.restart_policy == "ExitCode" or parsed.run_policy.gang_restart else replicas.restart_policy
    )
    of_class = {"priorityClassName": parsed.priority_class} if parsed.priority_class else {}
    native = pod_dialect(parsed, replicas) is Dialect.NATIVE
    group = {"schedulingGroup": {"podGroupName": parsed.name}} if native else {}
    return {**spec, **of_class, **group, "restartPolicy": restart, "schedulerName": parsed.scheduler.name}


def group_dialect(parsed: ParsedJob) -> Dialect | None:
    """The dialect of the job's PodGroup: that of its scheduler, or coscheduling for tools; None: it has none."""
    if parsed.scheduler.is_foreign:
        return parsed.scheduler.pod_groups
    return Dialect.COSCHEDULING if parsed.settings.pod_groups else None


def pod_dialect(parsed: ParsedJob, replicas: Replicas) -> Dialect | None:
    """The dialect in which a pod names the PodGroup: None before the last step, whose pods the PodGroup counts."""
    steps = {role.name: role.step for role in parsed.job.roles}
    is_last = steps.get(replicas.role, 0) == max(steps.values(), default=0)
    return group_dialect(parsed) if is_last else None


def group_annotations(parsed: ParsedJob, replicas: Replicas) -> dict[str, str]:
    """Annotations by which Volcano finds the PodGroup and the role of a pod."""
    if pod_dialect(parsed, replicas) is not Dialect.VOLCANO:
        return {}
    return {VOLCANO_GROUP: parsed.name, VOLCANO_TASK: replicas.role}


def with_env(spec: Manifest, env: Sequence[EnvVar], only_in: str = "") -> Manifest:
    """The spec with variables appended in every container, or in the one called `only_in`."""
    if not env:
        return spec
    containers = [
        with_additions(container, env=env) if only_in in ("", container["name"]) else container
        for container in spec["containers"]
    ]
    return {**spec, "containers": containers}


def upsert_env(env: Any, more: Sequence[Manifest]) -> list[Manifest]:
    """Returns variables with others added; one of the same name is replaced in its place."""
    new = {each.get("name", ""): each for each in more}
    kept = [
        new.pop(each.value["name"], each.value) if _named(each) else each.value for each in ManifestField(env).items()
    ]
    return [*kept, *new.values()]


def _named(variable: ManifestField) -> bool:
    return isinstance(variable.value, dict) and isinstance(variable.value.get("name"), str)


def first_container(spec: Manifest, container: Manifest) -> Manifest:
    """The spec with another first container."""
    return {**spec, "containers": [container, *spec["containers"][1:]]}


def with_additions(mapping: Manifest, **more: Sequence[Any]) -> Manifest:
    """A mapping whose lists have more items at their ends."""
    return {**mapping, **{name: [*(mapping.get(name) or []), *items] for name, items in more.items()}}
