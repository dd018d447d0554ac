"""Rules about whole files: readable, of known fields, of versions that are served, and valid by their own readers."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import TYPE_CHECKING

from windlass.diagnose.lint.documents import CLUSTER_FILE, JOB_FILE, Document, Documents
from windlass.diagnose.lint.findings import Hit, RuleSeverity
from windlass.diagnose.lint.meant_names import meant_names, meant_path
from windlass.diagnose.lint.message_fixes import fix_of
from windlass.diagnose.lint.pod_templates import SELECTOR_KINDS
from windlass.diagnose.lint.rule import Subject, rule
from windlass.diagnose.lint.values import Value, in_quotes
from windlass.jobs.errors import FieldPath, InputError, Place
from windlass.jobs.syntax.names import close_name

if TYPE_CHECKING:
    from windlass.jobs.kubernetes.manifest_reader import Fault
    from windlass.jobs.kubernetes.manifests.known_fields.unknown_fields import UnknownField

_K8S = "https://kubernetes.io/docs"
_KINDS_OF_JOBS = "PyTorchJob TFJob JAXJob XGBoostJob PaddleJob MPIJob TrainJob TrainingJob"
_REMOVED: Mapping[tuple[str, str], str] = MappingProxyType(
    {
        ("extensions/v1beta1", "Deployment"): "apps/v1",
        ("extensions/v1beta1", "DaemonSet"): "apps/v1",
        ("extensions/v1beta1", "Ingress"): "networking.k8s.io/v1",
        ("apps/v1beta1", "Deployment"): "apps/v1",
        ("apps/v1beta1", "StatefulSet"): "apps/v1",
        ("apps/v1beta2", "Deployment"): "apps/v1",
        ("apps/v1beta2", "DaemonSet"): "apps/v1",
        ("apps/v1beta2", "StatefulSet"): "apps/v1",
        ("batch/v1beta1", "CronJob"): "batch/v1",
        ("batch/v2alpha1", "CronJob"): "batch/v1",
        ("policy/v1beta1", "PodDisruptionBudget"): "policy/v1",
        ("policy/v1beta1", "PodSecurityPolicy"): "",
        ("autoscaling/v2beta1", "HorizontalPodAutoscaler"): "autoscaling/v2",
        ("autoscaling/v2beta2", "HorizontalPodAutoscaler"): "autoscaling/v2",
        ("storage.k8s.io/v1beta1", "CSIDriver"): "storage.k8s.io/v1",
        ("scheduling.k8s.io/v1beta1", "PriorityClass"): "scheduling.k8s.io/v1",
        ("rbac.authorization.k8s.io/v1beta1", "ClusterRole"): "rbac.authorization.k8s.io/v1",
        ("rbac.authorization.k8s.io/v1beta1", "ClusterRoleBinding"): "rbac.authorization.k8s.io/v1",
        ("ray.io/v1alpha1", "RayCluster"): "ray.io/v1",
        ("ray.io/v1alpha1", "RayJob"): "ray.io/v1",
        ("ray.io/v1alpha1", "RayService"): "ray.io/v1",
        ("kubeflow.org/v1beta2", "TFJob"): "kubeflow.org/v1",
        ("kubeflow.org/v1beta2", "PyTorchJob"): "kubeflow.org/v1",
        ("kubeflow.org/v1beta1", "PyTorchJob"): "kubeflow.org/v1",
        ("kubeflow.org/v1alpha1", "MPIJob"): "kubeflow.org/v2beta1",
        ("kubeflow.org/v1alpha2", "MPIJob"): "kubeflow.org/v2beta1",
        ("jobset.x-k8s.io/v1alpha1", "JobSet"): "jobset.x-k8s.io/v1alpha2",
    }
)
"""API version and kind → the version that replaces it, "" without one."""
_OF_KUEUE = ("ClusterQueue", "LocalQueue", "ResourceFlavor")
_SERVED: Mapping[str, str] = MappingProxyType(
    {
        **dict.fromkeys(("Pod", "Service", "ConfigMap", "Secret", "Namespace", "ServiceAccount"), "v1"),
        **dict.fromkeys(("PersistentVolume", "PersistentVolumeClaim", "ResourceQuota", "LimitRange"), "v1"),
        **dict.fromkeys(SELECTOR_KINDS, "apps/v1"),
        **dict.fromkeys(("Job", "CronJob"), "batch/v1"),
        **dict.fromkeys(("PyTorchJob", "TFJob", "JAXJob", "XGBoostJob", "PaddleJob"), "kubeflow.org/v1"),
        **dict.fromkeys(("TrainJob", "TrainingRuntime", "ClusterTrainingRuntime"), "trainer.kubeflow.org/v1alpha1"),
        "MPIJob": "kubeflow.org/v2beta1",
        "JobSet": "jobset.x-k8s.io/v1alpha2",
        "LeaderWorkerSet": "leaderworkerset.x-k8s.io/v1",
        **dict.fromkeys(("RayCluster", "RayJob", "RayService"), "ray.io/v1"),
        **dict.fromkeys(_OF_KUEUE, "kueue.x-k8s.io/v1beta1"),
        "Notebook": "kubeflow.org/v1",
        "TrainingJob": "windlass.dev/v1alpha1",
    }
)
"""Kind → its API version."""
_OF_SEVERAL_VERSIONS = frozenset({"Job", "MPIJob", *_OF_KUEUE})
"""Kinds of which API servers may know several versions with other fields."""
_OF_FIXED_FIELDS = frozenset(
    f"{_KINDS_OF_JOBS} TrainingRuntime ClusterTrainingRuntime JobSet Job CronJob ConfigMap Secret Service "
    "ServiceAccount PersistentVolumeClaim Pod".split()
)
"""Kinds of which an unknown field is a fault; of others a later version may have it, if it is like no known one."""
_VERSION = re.compile(r"([a-z0-9.-]+/)?v[0-9]+((alpha|beta)[0-9]+)?")
_SAME_FIELDS = frozenset({"CronJob", "CSIDriver", "PriorityClass", "ClusterRole", "ClusterRoleBinding"})
"""Kinds whose fields are the same in both versions."""


def _found_by_engine(_subject: object) -> Iterator[Hit]:
    yield from ()


@rule(RuleSeverity.ERROR, Subject.ENGINE, fix="Correct the file at this place.", source="https://yaml.org/spec/1.2.2/")
def unreadable_file(subject: object) -> Iterator[Hit]:
    """Only a file that is there, is text and is valid YAML can be checked and applied."""
    return _found_by_engine(subject)


@rule(
    RuleSeverity.WARNING, Subject.ENGINE, fix="Write the id that the finding shows in brackets.", source=f"{_K8S}/home/"
)
def unknown_ignore(subject: object) -> Iterator[Hit]:
    """A comment that names no rule ignores nothing, so the finding for which it was written is shown."""
    return _found_by_engine(subject)


@rule(
    RuleSeverity.ERROR,
    Subject.DOCUMENT,
    fix="Correct the name, or move the field to where it belongs.",
    source=f"{_K8S}/reference/using-api/api-concepts/#field-validation",
)
def unknown_field(document: Document) -> Iterator[Hit]:
    """An API server drops a field that the kind lacks, so the setting has no effect; strict validation refuses it."""
    for each in document.unknown:
        is_directive = str(each.path[-1]).startswith("$")  # of a strategic merge patch
        is_maybe_newer = document.kind not in _OF_FIXED_FIELDS and not each.meant
        if not is_directive and not is_maybe_newer:
            place = in_quotes(each.place, str(each.path[-1]))
            yield Hit(place, str(each), each.near or None, _fix_of_unknown(each))


def _fix_of_unknown(each: UnknownField) -> str:
    from windlass.jobs.kubernetes.manifest_reader import format_path  # noqa: PLC0415 - loads readers of jobs

    if not each.meant:
        return "Remove the field."
    if each.meant[:-1] == each.path[:-1]:
        return f"Write {each.meant[-1]}."
    return f"Write it as {format_path(each.meant)}."


@rule(
    RuleSeverity.ERROR,
    Subject.DOCUMENT,
    fix="Write the value that the message names.",
    source="https://www.kubeflow.org/docs/components/trainer/",
    kinds=_KINDS_OF_JOBS,
    is_general=True,
)
def invalid_job(document: Document) -> Iterator[Hit]:
    """The operator of this kind refuses the job, or fails it before it has pods."""
    from windlass.jobs.kubernetes.kinds.registry import faults_of  # noqa: PLC0415 - loads every kind
    from windlass.jobs.kubernetes.train_runtimes import NOT_FOUND  # noqa: PLC0415

    explained = _explained(document)
    for fault in faults_of({**document.root.plain, "kind": document.kind}):
        if fault.reason != NOT_FOUND and fault.path not in explained:
            yield _hit_of(fault, document.root)


def _explained(document: Document) -> set[FieldPath]:
    """Fields whose faults other rules report: unknown ones, those that they mean, and a missing version."""
    unknown = [each for each in document.unknown if not each.near]
    missing = [each.meant for each in unknown if each.meant and document.root.below(each.meant).name != each.meant[-1]]
    names = meant_names(document.unknown)
    written = [meant_path(each.path, names) for each in unknown]
    return {*written, *missing, *([] if document.version else [("apiVersion",)])}


def _hit_of(fault: Fault, root: Value) -> Hit:
    """A fault of a manifest, at the value that is wrong; at its name, if that is none of some words."""
    found = root.below(fault.path)
    is_value = found.is_scalar and found.name == fault.path[-1]
    near = close_name(found.text if is_value else found.name, fault.choices) or None
    hit = found.hit_value(str(fault), near) if is_value else found.hit_key(str(fault), near)
    return replace(hit, fix=fix_of(fault.message, fault.choices))


@rule(
    RuleSeverity.ERROR,
    Subject.DOCUMENT,
    fix="Correct the field; `windlass explain job.FIELD` shows its values.",
    source="https://yaml.org/spec/1.2.2/",
    kinds=JOB_FILE,
)
def invalid_job_file(document: Document) -> Iterator[Hit]:
    """`windlass run` and `submit` refuse the file."""
    from windlass.jobs.description.job_file import loads  # noqa: PLC0415 - loads the reader of jobs

    if document.is_first:
        yield from _hits_of(lambda: loads(document.text.text, source=document.text.source))


@rule(
    RuleSeverity.ERROR,
    Subject.DOCUMENT,
    fix="Correct the field; `windlass explain cluster.FIELD` shows its values.",
    source="https://yaml.org/spec/1.2.2/",
    kinds=CLUSTER_FILE,
)
def invalid_cluster_file(document: Document) -> Iterator[Hit]:
    """`windlass up` and `simulate` refuse the file."""
    from windlass.jobs.cluster.cluster_file import read_cluster  # noqa: PLC0415

    yield from _hits_of(lambda: read_cluster(document.text))


@rule(
    RuleSeverity.ERROR,
    Subject.DOCUMENT,
    fix="Correct the field; `windlass explain` shows the fields of schedules, queues, policies and reservations.",
    source=f"{_K8S}/reference/using-api/api-concepts/#field-validation",
    kinds="CronTrainingJob Queue SchedulingPolicy Reservation",
)
def invalid_windlass_object(document: Document) -> Iterator[Hit]:
    """The operator of Windlass leaves out a field that it cannot read, or the whole object."""
    from windlass.jobs.kubernetes.manifests.own_kinds import OWN_KINDS  # noqa: PLC0415 - loads the tables of fields
    from windlass.jobs.syntax.table_reader import Reader  # noqa: PLC0415

    table = next((each.table for each in OWN_KINDS if each.name == document.kind), ())
    if document.group != "windlass.dev" or not document.spec.is_map or document.spec.node is None:
        return
    reader = Reader(document.text)
    reader.table(document.spec.node, table, (), f"the spec of a {document.kind}")
    for problem in reader.problems:
        yield Hit(problem.place or document.spec.place, problem.message, fix=fix_of(problem.message))


@rule(
    RuleSeverity.ERROR,
    Subject.DOCUMENT,
    fix="Write the served version and adapt its fields.",
    source=f"{_K8S}/reference/using-api/deprecation-guide/",
    kinds=" ".join(sorted({kind for _, kind in _REMOVED})),
)
def removed_api_version(document: Document) -> Iterator[Hit]:
    """API servers no longer serve this version, so the object cannot be created."""
    served = _REMOVED.get((document.version, document.kind))
    if served is not None:
        text = f"{served} replaced it" if served else "Pod Security Admission replaced it"
        replacement = served if document.kind in _SAME_FIELDS else None
        yield document.root["apiVersion"].hit_value(
            f"{document.kind} of {document.version} is no longer served; {text}",
            replacement,
            fix=f"Write {served}, and adapt its fields." if served else "Remove the object.",
        )


@rule(
    RuleSeverity.ERROR,
    Subject.DOCUMENT,
    fix="Write the version that the message names.",
    source=f"{_K8S}/concepts/overview/working-with-objects/#required-fields",
    kinds=" ".join(_SERVED),
)
def api_version_missing(document: Document) -> Iterator[Hit]:
    """Every object names its API version; kubectl and the API server refuse it without one."""
    root, kind = document.root, document.root["kind"]
    if root["apiVersion"] or not (root["metadata"].is_map or root["spec"].is_map):
        return
    version, place = _SERVED[document.kind], kind.place
    is_safe = document.kind not in _OF_SEVERAL_VERSIONS and place.column == 1 and place.width == len("kind")
    message = f"a {document.kind} without apiVersion; it is of {version}"
    fix = f"Write apiVersion: {version}."
    yield kind.hit_key(message, f"apiVersion: {version}\nkind", fix=fix) if is_safe else kind.hit(message, fix=fix)


@rule(
    RuleSeverity.ERROR,
    Subject.INPUT,
    fix="Write the kind of the object, for example kind: Job.",
    source=f"{_K8S}/concepts/overview/working-with-objects/#required-fields",
)
def kind_missing(documents: Documents) -> Iterator[tuple[Document, Hit]]:
    """Every object names its kind; kubectl and the API server refuse it without one."""
    for document in documents.of(""):
        is_object = bool(document.name or document.root.at("metadata", "generateName"))
        if is_object and _VERSION.fullmatch(document.version):
            yield document, document.root["apiVersion"].hit(f"an object of {document.version[:60]} without kind")


@rule(
    RuleSeverity.ERROR,
    Subject.DOCUMENT,
    fix="Write the kind that the message names.",
    source=f"{_K8S}/concepts/overview/working-with-objects/#required-fields",
)
def kind_misspelt(document: Document) -> Iterator[Hit]:
    """The API server compares kinds letter by letter, and finds none of this name."""
    kind = document.root["kind"]
    if kind.text and kind.text != document.kind.partition(".")[0]:
        where = f"{document.version[:60]} has" if document.version else "there is"
        message = f"{where} no kind {kind.text[:60]!r}; write {document.kind}"
        yield kind.hit_value(message, document.kind, fix=f"Write {document.kind}.")


@rule(
    RuleSeverity.ERROR,
    Subject.INPUT,
    fix="Rename one of the two, or remove it.",
    source=f"{_K8S}/concepts/overview/working-with-objects/names/",
)
def duplicate_object(documents: Documents) -> Iterator[tuple[Document, Hit]]:
    """The second object of the same kind and name replaces the first when the file is applied."""
    seen = defaultdict[tuple[str, ...], list[Document]](list)
    for document in documents.documents:
        if document.name and document.kind:
            key = (document.text.source, document.group, document.kind, document.namespace, document.name)
            seen[key].append(document)
    for first, *others in seen.values():
        for other in others:
            line = first.root.place.line
            yield (
                other,
                other.root.at("metadata", "name").hit(
                    f"{other.kind} {other.name[:60]!r} is defined twice; the first is in line {line}"
                ),
            )


def _hits_of(read: Callable[[], object]) -> Iterator[Hit]:
    """The problems that a reader raises."""
    try:
        read()
    except InputError as error:
        for problem in error.problems:
            yield Hit(problem.place or Place(1, 1), problem.message, fix=fix_of(problem.message))
