"""Types of manifests with their fields. Loaded by the first manifest that is read."""

from __future__ import annotations

import functools
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from windlass.jobs.description.fields import JOB
from windlass.jobs.description.schedule_fields import NAMES as SCHEDULE_FIELDS
from windlass.jobs.kubernetes.manifests.known_fields.job_kinds import JOB_TYPES
from windlass.jobs.kubernetes.manifests.known_fields.workload_kinds import WORKLOAD_KINDS, WORKLOAD_TYPES
from windlass.jobs.syntax.field import Field, Shape, Table

_FILE = Path(__file__).with_name("api_types.json")
"""Types of Kubernetes itself, written by `tools/write_api_types.py`."""
POD_TEMPLATE = "PodTemplateSpec"
JOB_FILE = "job file"
"""The type of a document of a job file."""
_JOB_SPEC = "TrainingJob spec"
_OPERATORS = ("PyTorchJob", "TFJob", "JAXJob", "XGBoostJob", "PaddleJob", "MPIJob")
_TRAINER = {"TrainJob": "TrainJob", "TrainingRuntime": "TrainingRuntime", "ClusterTrainingRuntime": "TrainingRuntime"}
_BESIDE = ("ConfigMap", "Secret", "Service", "ServiceAccount", "PersistentVolumeClaim", "Pod")
KINDS: Mapping[tuple[str, str], str] = {
    **{("kubeflow.org/v1", kind): kind for kind in _OPERATORS},
    ("kubeflow.org/v2beta1", "MPIJob"): "MPIJob",
    **{("trainer.kubeflow.org/v1alpha1", kind): name for kind, name in _TRAINER.items()},
    ("windlass.dev/v1alpha1", "TrainingJob"): "TrainingJob",
    ("jobset.x-k8s.io/v1alpha2", "JobSet"): "JobSet",
    ("batch/v1", "Job"): "Job",
    ("batch/v1", "CronJob"): "CronJob",
    **{("v1", kind): kind for kind in _BESIDE},
    **WORKLOAD_KINDS,
}
"""The type of each checked kind, by API version and name. Objects of other kinds are not checked."""


@dataclass(frozen=True, slots=True)
class FieldType:
    """One type: its fields, and the types of their values."""

    fields: Mapping[str, str]
    """Content of each field by name: a type's name, `[Name]` for a list of it, `{Name}` for a mapping of free names to
    it, and nothing for single values and for free mappings."""
    foreign_names: Mapping[str, str] = field(default_factory=dict)
    """Names of fields in other systems: mentioned in errors, never accepted."""


@functools.cache
def known_types() -> Mapping[str, FieldType]:
    """Every type by its name."""
    fields = {**_of_kubernetes()["types"], **JOB_TYPES, **WORKLOAD_TYPES}
    return {**{name: FieldType(each) for name, each in fields.items()}, **_training_job()}


def kubernetes_version() -> str:
    """The version of Kubernetes that the fields are from."""
    return str(_of_kubernetes()["kubernetes"])


@functools.cache
def _of_kubernetes() -> dict[str, Any]:
    return dict(json.loads(_FILE.read_text(encoding="utf-8")))


def _training_job() -> dict[str, FieldType]:
    """Our own kind: its spec has the fields of a job file, except those of a schedule."""
    whole = {"apiVersion": "", "kind": "", "metadata": "ObjectMeta", "spec": _JOB_SPEC, "status": ""}
    of_one_run = tuple(each for each in JOB if each.name not in SCHEDULE_FIELDS)
    types = {**dict(_tables(JOB_FILE, JOB)), **dict(_tables(_JOB_SPEC, of_one_run))}
    return {"TrainingJob": FieldType(whole), **types}


def _tables(name: str, table: Table) -> Iterator[tuple[str, FieldType]]:
    """A table of fields as a type, and those that its fields hold."""
    foreign = {other: each.name for each in table for other in each.foreign_names}
    yield name, FieldType({each.name: _shape(f"{name}.{each.name}", each) for each in table}, foreign)
    for each in table:
        if each.table:
            yield from _tables(f"{name}.{each.name}", each.table)


def _shape(name: str, each: Field) -> str:
    match each.shape:
        case Shape.TABLE:
            return name
        case Shape.TABLES:
            return f"[{name}]"
        case Shape.NAMED:
            return f"{{{name}}}"
        case Shape.FREE:
            return POD_TEMPLATE
    return ""
