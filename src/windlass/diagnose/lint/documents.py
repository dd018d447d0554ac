"""YAML documents as rules see them: kind, names and values; also documents inside of ConfigMaps."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from difflib import get_close_matches
from functools import cache, cached_property
from typing import TYPE_CHECKING

from windlass.diagnose.lint.environment import WrittenEnvironment, written_environment
from windlass.diagnose.lint.findings import Hit
from windlass.diagnose.lint.meant_names import meant_names, with_meant_names
from windlass.diagnose.lint.pod_templates import PodTemplate, pod_templates
from windlass.diagnose.lint.values import Value
from windlass.jobs.errors import InputError, Place
from windlass.jobs.syntax.names import close_name
from windlass.jobs.syntax.text import Text
from windlass.jobs.syntax.yaml_tree import ListNode, Node, Scalar, compose

if TYPE_CHECKING:
    from windlass.jobs.kubernetes.manifests.known_fields.unknown_fields import UnknownField

MAX_NODES = 2_000_000
"""Number of values in one input: the output of Helm for a whole cluster."""
_MAX_LEVELS = 96
"""Depth of a document: schemas of custom resources have 50 levels."""
JOB_FILE, CLUSTER_FILE = "windlass-job-file", "windlass-cluster-file"
PIPELINE, DEVICE_PLUGIN, MIG_PARTED = "kfp-pipeline", "device-plugin-config", "mig-parted-config"
_GROUPS = (
    "kubeflow.org",
    "trainer.kubeflow.org",
    "ray.io",
    "windlass.dev",
    "nvidia.com",
    "batch.volcano.sh",
    "scheduling.volcano.sh",
    "k8s.cni.cncf.io",
    "sriovnetwork.openshift.io",
    "argoproj.io",
)
"""API groups that rules know, beside those of Kubernetes' own projects."""


@dataclass(eq=False)
class Document:
    """One document. `kind` is that of a manifest, or one of the names above for other files; "" if it is unknown.

    A misspelt kind is read as the one that it means. A kind of a group that no rule knows has the group in its name:
    "Service.serving.knative.dev".
    """

    text: Text
    root: Value
    kind: str
    lines: int = 0
    """Lines of the file before the text of an embedded document."""
    columns: int = 0
    """Indentation of an embedded document."""
    is_first: bool = False
    """It is the first document of its file."""
    unknown: Sequence[UnknownField] = ()
    """Fields that the kind lacks. `root` has the names that they mean, where that is certain."""

    @cached_property
    def version(self) -> str:
        """The API version of a manifest."""
        return self.root["apiVersion"].text

    @cached_property
    def group(self) -> str:
        """The API group of a manifest; "" for the core group."""
        return self.version.rpartition("/")[0]

    @cached_property
    def name(self) -> str:
        """The name of a manifest's object."""
        return self.root.at("metadata", "name").text

    @cached_property
    def namespace(self) -> str:
        """The namespace as written."""
        return self.root.at("metadata", "namespace").text

    @cached_property
    def spec(self) -> Value:
        """The spec."""
        return self.root["spec"]

    @cached_property
    def pods(self) -> list[PodTemplate]:
        """The pod templates."""
        return pod_templates(self.kind, self.group, self.root)

    @property
    def job(self) -> Value:
        """The fields of a job of Windlass; an absent value in any other document."""
        return self.root if self.kind == JOB_FILE else self.spec if self.kind == "TrainingJob" else self.root[""]

    @property
    def environments(self) -> list[WrittenEnvironment]:
        """The variables of a job of Windlass and of its roles."""
        parts = [self.job, *self.job["roles"].fields.values()] if self.job else []
        return [written_environment(part["env"]) for part in parts]

    @property
    def replicas(self) -> int:
        """Number of replicas of a job of Windlass, in all roles."""
        roles = self.job["roles"].fields.values()
        return sum(role["replicas"].number or 1 for role in roles) if roles else self.job["nodes"].number or 1

    def in_file(self, hit: Hit) -> Hit:
        """A fault with its place in the file."""
        place = hit.place
        return replace(hit, place=Place(place.line + self.lines, place.column + self.columns, place.width))


@dataclass(eq=False)
class Documents:
    """All documents of one input, with indexes for references: an input may have thousands of documents."""

    documents: Sequence[Document] = field(default_factory=list)

    @cached_property
    def _by_kind(self) -> dict[str, list[Document]]:
        found = defaultdict[str, list[Document]](list)
        for each in self.documents:
            found[each.kind].append(each)
        return found

    @cached_property
    def _by_name(self) -> dict[tuple[str, str], list[Document]]:
        found = defaultdict[tuple[str, str], list[Document]](list)
        for each in self.documents:
            if each.name:
                found[each.kind, each.name].append(each)
        return found

    def of(self, *kinds: str) -> list[Document]:
        """The documents of some kinds."""
        return [each for kind in kinds for each in self._by_kind.get(kind, ())]

    def named(self, kind: str, name: str) -> list[Document]:
        """The objects of a kind and a name."""
        return self._by_name.get((kind, name), [])

    def nearest(self, document: Document, kind: str, name: str, *, namespaced: bool = True) -> Document | None:
        """The object of a name that a document means: in its namespace, of its own file if several files have one."""
        named = self.named(kind, name)
        found = [each for each in named if not namespaced or each.namespace == document.namespace]
        own = [each for each in found if each.text.source == document.text.source]
        return own[0] if own else found[0] if len(found) == 1 else None

    def by_place(self, kind: str) -> dict[tuple[str, str], list[Document]]:
        """The objects of a kind by their file and namespace."""
        found = defaultdict[tuple[str, str], list[Document]](list)
        for each in self.of(kind):
            found[each.text.source, each.namespace].append(each)
        return found

    @cached_property
    def _by_selector(self) -> dict[tuple[str, str], list[Document]]:
        """Services by the first label that they select."""
        found = defaultdict[tuple[str, str], list[Document]](list)
        for each in self.of("Service"):
            for name, value in list(each.spec["selector"].fields.items())[:1]:
                found[name, value.text].append(each)
        return found

    def services_of(self, document: Document, pod: PodTemplate) -> list[Document]:
        """The services of the same file and namespace that select a pod of a document."""
        candidates = [each for label in pod.labels.items() for each in self._by_selector.get(label, ())]
        return [
            each
            for each in candidates
            if is_together(each, document)
            and all(pod.labels.get(name) == value.text for name, value in each.spec["selector"].fields.items())
        ]


def is_together(one: Document, other: Document) -> bool:
    """Tells whether two documents are of one file and one namespace; "" may be any namespace."""
    return one.text.source == other.text.source and (
        one.namespace == other.namespace or not one.namespace or not other.namespace
    )


def read_documents(text: Text) -> list[Document]:
    """The documents of a file, items of lists and embedded documents included. Raises InputError."""
    documents = [document for node in compose(text, MAX_NODES, _MAX_LEVELS) for document in _expand(text, node)]
    for document in documents[:1]:
        document.is_first = True
    return documents


def has_placeholder(document: Document) -> bool:
    """Tells whether the name is written as {name}, which another program fills in; YAML reads a mapping to null."""
    values = document.root.at("metadata", "name").fields.values()
    return bool(values) and not any(values)


def _expand(text: Text, node: Node) -> Iterator[Document]:
    root = Value(node, node.place)
    items = root["items"]
    if root["kind"].text == "List" and isinstance(items.node, ListNode):
        for item in items.node.items:
            yield from _expand(text, item)
        return
    document = _document(text, node)
    yield document
    if document.kind == "ConfigMap":
        yield from _embedded(text, root["data"])


def _document(text: Text, node: Node) -> Document:
    root = Value(node, node.place)
    kind, unknown = _kind(root), list["UnknownField"]()
    if shape := _shape(root["apiVersion"].text, kind):
        from windlass.jobs.kubernetes.manifests.known_fields.unknown_fields import unknown_below  # noqa: PLC0415

        unknown = unknown_below(node, shape)
    return Document(text, Value(with_meant_names(node, meant_names(unknown)), node.place), kind, unknown=unknown)


@cache
def _shape(version: str, kind: str) -> str:
    """The type of a kind; under a version that is not known, the type that the kind has under all others."""
    known = _known_shapes()
    group = _group(version)
    of_kind = {
        shape for (other, name), shape in known.items() if name == kind and (not version or _group(other) == group)
    }
    return known.get((version, kind)) or (of_kind.pop() if len(of_kind) == 1 else "")


def _group(version: str) -> str:
    return version.rpartition("/")[0]


@cache
def _known_shapes() -> Mapping[tuple[str, str], str]:
    from windlass.jobs.kubernetes.manifests.known_fields.types import KINDS  # noqa: PLC0415 - loads tables of fields

    return KINDS


@cache
def _meant_kind(kind: str, version: str) -> str:
    """The kind that a misspelt one means, of the group of the version if there is one; else the kind itself."""
    known = {name for other, name in _known_shapes() if not version or _group(other) == _group(version)}
    return kind if kind in known else close_name(kind, known) or kind


def _kind(root: Value) -> str:
    if root["kind"] or root["apiVersion"]:
        kind, group = root["kind"].text, root["apiVersion"].text.rpartition("/")[0]
        return f"{kind}.{group}" if kind and _is_foreign(group) else _meant_kind(kind, root["apiVersion"].text)
    names = set(root.fields)
    if {"components", "root", "schemaVersion"} <= names or "pipelineSpec" in names:
        return PIPELINE
    if root["mig-configs"].is_map or (root["version"].text == "v1" and names & {"sharing", "flags"}):
        return MIG_PARTED if root["mig-configs"] else DEVICE_PLUGIN
    if names & {"command", "roles"} and 2 * len(names & _job_fields()) > len(names):
        return JOB_FILE
    if root["nodes"].is_list and 2 * len(names & _cluster_fields()) >= len(names):
        return CLUSTER_FILE
    return ""


@cache
def _is_foreign(group: str) -> bool:
    """Tells whether a group is none that rules know, and no misspelt one: its kinds may have names of other groups."""
    is_known = "." not in group or group.endswith(("x-k8s.io", ".k8s.io")) or group in _GROUPS
    return not is_known and not get_close_matches(group, _GROUPS, 1, 0.85)


@cache
def _job_fields() -> frozenset[str]:
    from windlass.jobs.description.fields import JOB  # noqa: PLC0415 - manifests need no tables of fields

    return frozenset(field.name for field in JOB)


@cache
def _cluster_fields() -> frozenset[str]:
    from windlass.jobs.cluster.cluster_file import CLUSTER  # noqa: PLC0415 - imports numpy, by way of the scheduler

    return frozenset(field.name for field in CLUSTER)


def _embedded(text: Text, data: Value) -> Iterator[Document]:
    """Configurations of the device plugin and of mig-parted in literal blocks of a ConfigMap."""
    for value in data.fields.values():
        if "\n" not in value.text or not ("mig-configs:" in value.text or "version: v1" in value.text):
            continue
        block = value.node.place.line if isinstance(value.node, Scalar) else 0
        first = text.lines[block] if block < len(text.lines) else ""
        try:
            nodes = compose(Text(text.source, value.text), MAX_NODES)
        except InputError:
            continue
        for node in nodes:
            root = Value(node, node.place)
            if (kind := _kind(root)) in (DEVICE_PLUGIN, MIG_PARTED):
                yield Document(text, root, kind, block, len(first) - len(first.lstrip()))
