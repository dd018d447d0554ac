"""Rules about names, labels, annotations and data of any object."""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Iterator, Mapping
from types import MappingProxyType

from windlass.diagnose.lint.documents import Document
from windlass.diagnose.lint.findings import Hit, RuleSeverity
from windlass.diagnose.lint.rule import Subject, rule
from windlass.diagnose.lint.values import Value

_OBJECTS = "https://kubernetes.io/docs/concepts/overview/working-with-objects"
_LABEL = re.compile(r"([A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?)?")
_NAME = re.compile(r"[a-z0-9]([-a-z0-9.]*[a-z0-9])?")
_MAX_NAME = 253
_MAX_CRON_NAME = 52
_LABEL_NAMES = frozenset(
    {"Service", "Namespace", "PyTorchJob", "TFJob", "JAXJob", "XGBoostJob", "PaddleJob", "MPIJob", "JobSet"}
)
"""Kinds whose names are DNS labels, because they become names of services."""
_OTHER_NAMES = frozenset({"Role", "RoleBinding", "ClusterRole", "ClusterRoleBinding", "Workflow"})
"""Kinds whose names may have other characters."""
_ANNOTATIONS: Mapping[str, str] = MappingProxyType(
    {
        "scheduler.alpha.kubernetes.io/critical-pod": "spec.priorityClassName",
        "scheduler.alpha.kubernetes.io/affinity": "spec.affinity",
        "scheduler.alpha.kubernetes.io/tolerations": "spec.tolerations",
        "seccomp.security.alpha.kubernetes.io/pod": "securityContext.seccompProfile",
        "service.alpha.kubernetes.io/tolerate-unready-endpoints": "spec.publishNotReadyAddresses",
        "volume.beta.kubernetes.io/storage-class": "spec.storageClassName",
        "pod.beta.kubernetes.io/init-containers": "spec.initContainers",
        "pod.beta.kubernetes.io/hostname": "spec.hostname",
        "pod.beta.kubernetes.io/subdomain": "spec.subdomain",
        "kueue.x-k8s.io/queue-name": "the label kueue.x-k8s.io/queue-name",
    }
)
"""Annotation that has no effect any more, or is deprecated → what replaced it."""


def _is_template(text: str) -> bool:
    return any(mark in text for mark in "${<") or re.fullmatch(r"[A-Z]+_[A-Z_]*", text) is not None


def _maps(document: Document, name: str) -> Iterator[Value]:
    """The labels or annotations of an object and of its pod templates."""
    yield document.root.at("metadata", name)
    if document.kind != "Pod":
        yield from (pod.template.at("metadata", name) for pod in document.pods)


@rule(RuleSeverity.ERROR, Subject.DOCUMENT, fix="Write the value in quotes.", source=f"{_OBJECTS}/annotations/")
def metadata_value_no_text(document: Document) -> Iterator[Hit]:
    """Values of labels, annotations and node selectors are text: the API server refuses a number or boolean."""
    if not document.version:
        return
    selectors = [pod.spec["nodeSelector"] for pod in document.pods]
    for values in (*_maps(document, "labels"), *_maps(document, "annotations"), *selectors):
        for name, value in values.fields.items():
            if value.is_scalar and not isinstance(value.plain, str):
                yield value.hit_value(f"{name[:60]}: {value.text[:40]} is not in quotes", f'"{value.text}"')


@rule(
    RuleSeverity.ERROR,
    Subject.DOCUMENT,
    fix="Write letters, digits, - _ and ., at most 63.",
    source=f"{_OBJECTS}/labels/#syntax-and-character-set",
)
def label_value_malformed(document: Document) -> Iterator[Hit]:
    """The API server refuses other characters in the value of a label; product names have - instead of spaces."""
    if not document.version:
        return
    selectors = [pod.spec["nodeSelector"] for pod in document.pods]
    for values in (*_maps(document, "labels"), *selectors):
        for name, value in values.fields.items():
            if value.is_scalar and not _LABEL.fullmatch(value.text) and not _is_template(value.text):
                yield value.hit_value(f"{name[:60]}: {value.text[:70]!r} is no value of a label")


@rule(RuleSeverity.ERROR, Subject.DOCUMENT, fix="Write small letters, digits and hyphens.", source=f"{_OBJECTS}/names/")
def name_malformed(document: Document) -> Iterator[Hit]:
    """The API server refuses a name with other characters, or one that is too long."""
    name = document.root.at("metadata", "name")
    if not document.version or not name or document.kind in _OTHER_NAMES or _is_template(name.text):
        return
    most = 63 if document.kind in _LABEL_NAMES else _MAX_CRON_NAME if document.kind == "CronJob" else _MAX_NAME
    if not _NAME.fullmatch(name.text) or (document.kind in _LABEL_NAMES and "." in name.text):
        yield name.hit_value(f"metadata.name: {name.text[:70]!r} is no name of a {document.kind}")
    elif len(name.text) > most:
        yield name.hit_value(f"the name has {len(name.text)} characters; a {document.kind} may have {most}")


@rule(
    RuleSeverity.WARNING,
    Subject.DOCUMENT,
    fix="Write the field or label that the message names.",
    source="https://kubernetes.io/docs/reference/labels-annotations-taints/",
)
def annotation_obsolete(document: Document) -> Iterator[Hit]:
    """The annotation has no effect in today's versions; a field or label replaced it."""
    for values in _maps(document, "annotations"):
        for name, value in values.fields.items():
            if name in _ANNOTATIONS:
                yield value.hit(f"{name} was replaced by {_ANNOTATIONS[name]}", fix=f"Write {_ANNOTATIONS[name]}.")


@rule(
    RuleSeverity.ERROR,
    Subject.DOCUMENT,
    fix="Write plain text under stringData, or encode it with base64.",
    source="https://kubernetes.io/docs/concepts/configuration/secret/",
    kinds="Secret",
)
def secret_not_base64(document: Document) -> Iterator[Hit]:
    """The values of data are base64; the API server refuses other text."""
    for name, value in document.root["data"].fields.items():
        if value.is_scalar and not _is_template(value.text) and not _is_base64(value.text):
            yield value.hit(f"data.{name[:60]} is not base64")


def _is_base64(text: str) -> bool:
    try:
        base64.b64decode("".join(text.split()), validate=True)
    except (binascii.Error, ValueError):
        return False
    return True


@rule(
    RuleSeverity.ERROR,
    Subject.DOCUMENT,
    fix="Write the value in quotes, or as a block of text with |.",
    source="https://kubernetes.io/docs/concepts/configuration/configmap/",
    kinds="ConfigMap",
)
def config_map_value_no_text(document: Document) -> Iterator[Hit]:
    """The values of a ConfigMap are text: the API server refuses a number, boolean, list or mapping."""
    for name, value in document.root["data"].fields.items():
        if value and not isinstance(value.plain, str):
            replacement = f'"{value.text}"' if value.is_scalar else None
            yield value.hit_value(f"data.{name[:60]} is no text", replacement)


_CRON_FIELDS = ((0, 59), (0, 23), (1, 31), (1, 12), (0, 7))
_CRON_NAMES = re.compile(r"(?i)jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec|sun|mon|tue|wed|thu|fri|sat")
_MACROS = ("@yearly", "@annually", "@monthly", "@weekly", "@daily", "@midnight", "@hourly")


@rule(
    RuleSeverity.ERROR,
    Subject.DOCUMENT,
    fix='Write five fields, for example "0 3 * * *", and the time zone in spec.timeZone.',
    source="https://kubernetes.io/docs/concepts/workloads/controllers/cron-jobs/#schedule-syntax",
    kinds="CronJob",
)
def cron_schedule_malformed(document: Document) -> Iterator[Hit]:
    """The API server refuses a schedule that has no five valid fields, or that has a time zone."""
    schedule = document.spec["schedule"]
    if schedule and not _is_template(schedule.text) and not _is_schedule(schedule.text):
        yield schedule.hit_value(f"{schedule.text[:60]!r} is no schedule")


def _is_schedule(text: str) -> bool:
    fields = text.split()
    if text in _MACROS or re.fullmatch(r"@every ([0-9]+(\.[0-9]+)?(h|m|s|ms))+", text):
        return True
    return len(fields) == len(_CRON_FIELDS) and all(map(_is_cron_field, fields, _CRON_FIELDS))


def _is_cron_field(text: str, limits: tuple[int, int]) -> bool:
    for part in text.split(","):
        found = re.fullmatch(r"(\*|\?|\w+)(?:-(\w+))?(?:/([1-9][0-9]*))?", part)
        if not found:
            return False
        for word in (found[1], found[2] or "*"):
            is_number = word.isdecimal() and limits[0] <= int(word) <= limits[1]
            if not (is_number or word in ("*", "?") or _CRON_NAMES.fullmatch(word)):
                return False
    return True
