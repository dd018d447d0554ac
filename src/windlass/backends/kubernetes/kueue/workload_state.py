"""The admission of a job by Kueue, read from its Workload. Other writers' fields are checked value by value.

Source: sigs.k8s.io/kueue v0.19, apis/kueue/v1beta2, and its protocol of eviction: the owner of a job stops it, and then
gives the quota back.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum

from windlass.core.model.job import Job, Role, Toleration
from windlass.jobs.kubernetes.manifest_reader import Manifest, ManifestError, ManifestField
from windlass.jobs.kubernetes.pods.pod_placement import tolerations_of

_MESSAGE_LENGTH = 1_000
"""Characters of a message of Kueue that a job shows."""


class AdmissionPhase(StrEnum):
    """The state of a Workload."""

    WAITING = "waiting"
    """Without quota, or with checks that are not done."""
    ADMITTED = "admitted"
    EVICTED = "evicted"
    """The job must stop, and still holds its quota."""


@dataclass(frozen=True, slots=True)
class PodSetAdmission:
    """The assignment of Kueue to one role."""

    count: int
    labels: Mapping[str, str] = field(default_factory=dict)
    """Labels of the nodes of its flavors."""
    tolerations: tuple[Toleration, ...] = ()


@dataclass(frozen=True, slots=True)
class KueueAdmission:
    """The admission of a job."""

    phase: AdmissionPhase
    message: str = ""
    """Why it waits or was evicted, in Kueue's words."""
    roles: Mapping[str, PodSetAdmission] = field(default_factory=dict)


def read_admission(workload: Manifest, flavors: Mapping[str, Manifest]) -> KueueAdmission:
    """The admission that a Workload shows. A malformed Workload is not admitted. `flavors`: ResourceFlavors by name."""
    try:
        return _read(ManifestField(workload)["status"], flavors)
    except ManifestError as error:
        return KueueAdmission(AdmissionPhase.WAITING, f"its Workload cannot be read: {error.fault}")


def _read(status: ManifestField, flavors: Mapping[str, Manifest]) -> KueueAdmission:
    conditions = {each["type"].text(): each for each in status["conditions"].items()}
    reserved = _is_true(conditions, "QuotaReserved")
    if _is_true(conditions, "Evicted") and reserved:
        return KueueAdmission(AdmissionPhase.EVICTED, _message(conditions, "Evicted"))
    if not (reserved and _is_true(conditions, "Admitted")):
        why = "quota is reserved, and admission checks are not done" if reserved else ""
        return KueueAdmission(AdmissionPhase.WAITING, why or _message(conditions, "QuotaReserved"))
    assigned = status["admission"]["podSetAssignments"].items()
    missing = [name for each in assigned for name in each["flavors"].text_map().values() if name not in flavors]
    if missing:
        return KueueAdmission(AdmissionPhase.WAITING, f"the ResourceFlavor {missing[0]} does not exist")
    roles = {each["name"].text(): _pod_set(each, flavors) for each in assigned}
    return KueueAdmission(AdmissionPhase.ADMITTED, "", roles)


def _is_true(conditions: Mapping[str, ManifestField], name: str) -> bool:
    return name in conditions and conditions[name]["status"].text() == "True"


def _message(conditions: Mapping[str, ManifestField], name: str) -> str:
    if name not in conditions:
        return ""
    text = " ".join(conditions[name]["message"].text().split())
    return text[:_MESSAGE_LENGTH]


def _pod_set(assigned: ManifestField, flavors: Mapping[str, Manifest]) -> PodSetAdmission:
    labels: dict[str, str] = {}
    tolerations: list[Toleration] = []
    for name in dict.fromkeys(assigned["flavors"].text_map().values()):
        spec = ManifestField(flavors[name])["spec"]
        labels |= spec["nodeLabels"].text_map()
        tolerations += tolerations_of(spec)
    return PodSetAdmission(assigned["count"].integer(0) or 0, labels, tuple(tolerations))


def admitted_job(job: Job, admission: KueueAdmission) -> Job:
    """The job as Kueue admitted it: on the nodes of its flavors, and with at most the admitted number of pods."""
    return replace(job, roles=tuple(_admitted_role(role, admission.roles.get(role.name)) for role in job.roles))


def _admitted_role(role: Role, found: PodSetAdmission | None) -> Role:
    if found is None:
        return role
    selector = {**role.node_selector, **found.labels}
    role = replace(role, node_selector=selector, tolerations=(*role.tolerations, *found.tolerations))
    if not role.elastic or not found.count:
        return role
    return replace(role, replicas=min(role.replicas, found.count), max_replicas=found.count)
