"""Makes the `ParsedJob` of a manifest, with the gang for the core, from its replica specs and its run policy.

Shared by all kinds with replica specs: `read_parts` reads the parts, `parsed_job` puts them together.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from windlass.core.model.job import DEFAULT_QUEUE, Job, Launcher, RestartPolicy, Role
from windlass.core.model.reasons import format_count
from windlass.core.model.resources import GPU
from windlass.jobs.kubernetes.bounded_integers import parse_integer
from windlass.jobs.kubernetes.gang_dialects import Dialect
from windlass.jobs.kubernetes.kinds.replica_specs import ReplicaTypes, replica_specs
from windlass.jobs.kubernetes.kinds.run_policy import restart_policy, run_policy
from windlass.jobs.kubernetes.manifest_reader import Fault, Manifest, ManifestError, ManifestField, read_all
from windlass.jobs.kubernetes.parsed_job import ParsedJob, Replicas, RunPolicy
from windlass.jobs.kubernetes.pods.anti_affinity import anti_affinity_selectors
from windlass.jobs.kubernetes.pods.pod_placement import affinity_of, ignored_fields, tolerations_of
from windlass.jobs.kubernetes.pods.pod_requests import pod_requests
from windlass.jobs.kubernetes.settings import Settings
from windlass.jobs.syntax.names import DNS_LABEL, is_name

_DEFAULT_GRACE_MS = 30_000
"""Kubernetes' default of terminationGracePeriodSeconds, in milliseconds."""
WORKER = "worker"
_PASSED_ON = {
    Dialect.COSCHEDULING: ("minResources", "scheduleTimeoutSeconds"),
    Dialect.VOLCANO: ("minResources",),
}
"""Fields of the scheduling policy that only a PodGroup for another scheduler has, by dialect."""

Sizes = Mapping[str, tuple[int, int]]
"""Minimum and maximum of replicas, of the roles whose size may change."""


def read_parts(
    manifest: ManifestField, types: ReplicaTypes, *checks: Callable[[], Any]
) -> tuple[tuple[Replicas, ...], RunPolicy]:
    """The replicas and the run policy of a manifest. Raises ManifestError with the faults of all parts.

    `checks`: reads of further fields that do not depend on the replicas.
    """
    parts = (lambda: replica_specs(manifest["spec"], types), lambda: run_policy(manifest))
    replicas, policy, *_ = read_all(*parts, lambda: _written_name(manifest), *checks)
    return replicas, policy


def placement_faults(spec: ManifestField) -> tuple[Fault, ...]:
    """The faults of a job's pod templates in the fields that decide on nodes, each template apart."""
    found = list[Fault]()
    for field in [each for name, each in spec.fields() if name.endswith("ReplicaSpecs")]:
        for _, replicas in field.fields():
            try:
                _check_placement(replicas["template"]["spec"])
            except ManifestError as error:
                found += error.faults
    return tuple(found)


def _check_placement(spec: ManifestField) -> None:
    read_all(
        lambda: pod_requests(spec),
        spec["nodeSelector"].text_map,
        lambda: tolerations_of(spec),
        lambda: affinity_of(spec),
        lambda: anti_affinity_selectors(spec),
        lambda: grace_of(spec),
    )


def parsed_job(
    manifest: ManifestField,
    replicas: Sequence[Replicas],
    policy: RunPolicy,
    *,
    field: str,
    settings: Settings,
    sizes: Sizes | None = None,
    nproc_per_node: str = "1",
    init: Mapping[str, Manifest] | None = None,
) -> ParsedJob:
    """The parsed job of a manifest. Raises ManifestError.

    `field`: where the replica specs stand. `init`: the container that the operator adds to run first in the pods
    of a type, by type; it asks for room too.
    """
    name = _name(manifest, replicas)
    templates = {each.type: _spec(manifest, field, each, (init or {}).get(each.type)) for each in replicas}
    roles = [_role(each, templates[each.type], nproc_per_node) for each in replicas if each.count]
    roles = _sized(roles, {**_shrinkable(policy, roles), **(sizes or {})})
    grace = max([grace_of(spec) for spec in templates.values()], default=_DEFAULT_GRACE_MS)
    labels = manifest["metadata"]["labels"].text_map()
    classes = [spec["priorityClassName"].text() for spec in templates.values()]
    parsed = ParsedJob(
        manifest=manifest.mapping(),
        api_version=manifest["apiVersion"].text(),
        kind=manifest["kind"].text(),
        name=name,
        namespace=manifest["metadata"]["namespace"].text() or "default",
        uid=manifest["metadata"]["uid"].text(),
        job=_job(name, roles, policy, restart_policy(policy, replicas), grace, labels),
        replicas=tuple(replicas),
        run_policy=policy,
        settings=settings,
        priority_class=policy.priority_class or next((name for name in classes if name), ""),
        anti_affinity={each.role: anti_affinity_selectors(templates[each.type]) for each in replicas},
        warnings=tuple(warnings_of_templates(templates)),
    )
    idle = _of_policy(parsed, manifest["spec"]["runPolicy"]["schedulingPolicy"])
    return replace(parsed, warnings=(*idle, *parsed.warnings))


def _job(
    name: str, roles: Sequence[Role], policy: RunPolicy, restart: RestartPolicy, grace: int, labels: Mapping[str, str]
) -> Job:
    return Job(
        name=name,
        roles=tuple(roles),
        launcher=Launcher.TORCHRUN,
        queue=policy.queue or DEFAULT_QUEUE,
        deadline=policy.deadline_ms,
        ttl=policy.ttl_ms,
        grace=grace,
        restart=restart,
        suspend=policy.suspend,
        hold=_hold_of(policy, roles),
        labels=labels,
    )


def _spec(manifest: ManifestField, field: str, replicas: Replicas, init: Manifest | None) -> ManifestField:
    """The pod spec of a type, as far as it decides on nodes."""
    path = manifest["spec"][field][replicas.type_as_written]["template"]["spec"].path
    spec = replicas.template["spec"]
    return ManifestField(
        {**spec, "initContainers": [*(spec.get("initContainers") or []), init]} if init else spec, path
    )


def _of_policy(parsed: ParsedJob, scheduling: ManifestField) -> list[str]:
    """Warnings for fields of the scheduling policy that have no effect: no PodGroup passes them on.

    Raises ManifestError.
    """
    written = {
        "minResources": scheduling["minResources"].mapping(),
        "scheduleTimeoutSeconds": scheduling["scheduleTimeoutSeconds"].integer() is not None,
    }
    passed_on = _PASSED_ON.get(parsed.scheduler.pod_groups or Dialect.NATIVE, ())
    return [f"schedulingPolicy: {name} has no effect" for name in written if written[name] and name not in passed_on]


def warnings_of_templates(templates: Mapping[str, ManifestField]) -> list[str]:
    """Warnings for fields of the pods' specs, by replica type, that have no effect. Raises ManifestError."""
    found = []
    for kind, spec in templates.items():
        found += [f"{kind}: {wish} is ignored by the scheduler" for wish in ignored_fields(spec)]
        if spec["restartPolicy"].text():
            found.append(f"{kind}: the template's restartPolicy gives way to the one beside its replicas")
    return found


def _name(manifest: ManifestField, replicas: Sequence[Replicas]) -> str:
    """The job's name, if every pod and service named by it may be called so."""
    name = _written_name(manifest)
    longest = max((f"{name}-{each.role}-{max(each.count - 1, 0)}" for each in replicas), key=len, default=name)
    if len(longest) > 63:
        manifest["metadata"]["name"].refuse(
            f"is {len(longest) - 63} characters too long: {longest} must be a DNS label of 63"
        )
    return name


def _written_name(manifest: ManifestField) -> str:
    entry = manifest["metadata"]["name"]
    name = entry.text()
    if not name:
        entry.refuse("expects the job's name")
    if not is_name(DNS_LABEL, name):
        entry.refuse("expects small letters, digits and dashes, a letter first: services are named by it")
    return name


def _role(replicas: Replicas, spec: ManifestField, nproc_per_node: str) -> Role:
    resources = pod_requests(spec)
    return Role(
        name=replicas.role,
        replicas=replicas.count,
        procs=_procs(nproc_per_node, resources.get(GPU, 0)),
        resources=resources,
        node_selector=spec["nodeSelector"].text_map(),
        tolerations=tolerations_of(spec),
        affinity=affinity_of(spec),
        step=replicas.step,
    )


def _procs(nproc_per_node: str, gpus: int) -> int:
    """Returns the ranks of a pod: for "auto" and "gpu" its number of GPUs, for "cpu" at least one."""
    number = parse_integer(nproc_per_node)
    return max(1, 0 if nproc_per_node == "cpu" else gpus) if number is None else number


def _hold_of(policy: RunPolicy, roles: Sequence[Role]) -> str:
    """The reason why a gang that has fewer pods than `schedulingPolicy.minAvailable` may not start; "" if it may."""
    pods = sum(role.replicas for role in roles)
    if policy.min_available is None or policy.min_available <= pods:
        return ""
    needs = f"schedulingPolicy.minAvailable is {policy.min_available}, and the job has {format_count(pods, 'pod')}"
    return f"{needs}: it starts when it has more replicas, or when minAvailable is lower"


def _shrinkable(policy: RunPolicy, roles: Sequence[Role]) -> dict[str, tuple[int, int]]:
    """The size of the workers under `schedulingPolicy.minAvailable`; all other roles are complete anyway."""
    if policy.min_available is None:
        return {}
    workers = next((role.replicas for role in roles if role.name == WORKER), 0)
    others = sum(role.replicas for role in roles) - workers
    fewest = max(policy.min_available - others, 1)
    return {WORKER: (fewest, workers)} if fewest < workers else {}


def _sized(roles: Sequence[Role], sizes: Sizes) -> list[Role]:
    return [_resized(role, *sizes[role.name]) if role.name in sizes else role for role in roles]


def _resized(role: Role, fewest: int, most: int) -> Role:
    """The role with its range of sizes. The requested number may lie outside of the policy's range."""
    return replace(role, min_replicas=min(fewest, role.replicas), max_replicas=max(most, role.replicas))


def grace_of(spec: ManifestField) -> int:
    """Termination grace period of a pod in milliseconds. Raises ManifestError."""
    seconds = spec["terminationGracePeriodSeconds"].integer()
    return _DEFAULT_GRACE_MS if seconds is None else seconds * 1000
