"""Manifest files and the objects that they become: jobs of known kinds as pods and dependents, others unchanged."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple

import yaml

from windlass.jobs.description.fields import JOB
from windlass.jobs.errors import FieldPath, InputError, Place, Problem
from windlass.jobs.kubernetes.kinds import trainingjob
from windlass.jobs.kubernetes.kinds.newer_version_fields import drop_unknown_fields
from windlass.jobs.kubernetes.kinds.registry import dependent_objects, members, read
from windlass.jobs.kubernetes.manifest_reader import Fault, Manifest, format_path
from windlass.jobs.kubernetes.manifests.known_fields import Validate
from windlass.jobs.kubernetes.manifests.known_fields.messages import as_problems, as_warnings, give_hint
from windlass.jobs.kubernetes.manifests.known_fields.unknown_fields import UnknownField, unknown_fields
from windlass.jobs.kubernetes.parsed_job import ParsedJob
from windlass.jobs.kubernetes.settings import Settings
from windlass.jobs.kubernetes.train_runtimes import CLUSTER_RUNTIME, NOT_FOUND, RUNTIME, Lookup, built_in
from windlass.jobs.syntax.text import Text
from windlass.jobs.syntax.yaml_tree import ListNode, MapNode, Node, Scalar, compose, plain

_GROUPS = ("kubeflow.org/", "windlass.dev/")
"""API groups whose kinds are jobs: an unknown kind of them is a mistake."""
_TRAINER = "trainer.kubeflow.org/"
"""Kinds of these groups that are no jobs: jobs of the same file may use them as runtimes."""
_MARKS = ("apiVersion", "kind")


class Objects(NamedTuple):
    """The objects that a file becomes."""

    objects: list[Manifest]
    warnings: list[str]
    """Warnings for fields without effect, one line each."""


def holds_manifests(text: Text) -> bool:
    """Tells whether a file contains manifests and no job file. Raises InputError if it is no YAML."""
    return any(_names(node) & set(_MARKS) for node in compose(text))


def objects_of(text: Text, validate: Validate = Validate.STRICT, *, in_cluster: bool = False) -> Objects:
    """Every object that the manifests become, in their order. Raises InputError with every fault.

    `validate`: treatment of fields that no kind has. `in_cluster`: the manifests are for a cluster, in which a runtime
    may exist that the file lacks; jobs of such a runtime become no objects.
    """
    nodes = list(_manifests(compose(text)))
    manifests = [plain(node) for node in nodes]
    settings = Settings(runtimes=_runtimes(manifests))
    strict = validate is Validate.STRICT
    found, unknown, faults = Objects([], []), list[UnknownField](), list[Problem]()
    for node, manifest in zip(nodes, manifests, strict=True):
        slips = [] if validate is Validate.IGNORE else unknown_fields(node)
        unknown += slips
        parsed = _read(manifest, settings, strict=strict)
        if isinstance(parsed, Fault):
            if not (in_cluster and parsed.reason == NOT_FOUND) and not (
                strict and any(slip.explains(parsed.path) for slip in slips)
            ):
                faults.append(text.problem(f"{format_path(parsed.path)}: {parsed.message}", _place(node, parsed.path)))
        elif parsed is None:
            found.objects.append(manifest)
        else:
            found.objects.extend(objects_of_parsed_job(parsed))
            found.warnings.extend(f"{text.source}: {parsed.name}: {warning}" for warning in parsed.warnings)
    if faults or (strict and unknown):
        raise InputError([*as_problems(text, unknown), *faults], give_hint() if strict and unknown else "")
    return found._replace(warnings=[*as_warnings(text, unknown), *found.warnings])


def _read(manifest: Any, settings: Settings, *, strict: bool) -> ParsedJob | Fault | None:
    """Reads a manifest; returns None if it is no job."""
    if not _is_job(manifest):
        return None
    if not strict and isinstance(manifest, dict) and manifest.get("kind") == trainingjob.KIND:
        # The API server drops fields that its definition lacks, so our reader never sees one.
        manifest = {**manifest, "spec": drop_unknown_fields(manifest.get("spec"), JOB, "spec", [])}
    return read(manifest, settings)


def objects_of_parsed_job(parsed: ParsedJob) -> list[Manifest]:
    """Every object of a running job; a suspended one has no pods."""
    made = [] if parsed.run_policy.suspend else members(parsed, 1)
    return [*dependent_objects(parsed, [member.name for member in made]), *(member.pod for member in made)]


def _manifests(nodes: Sequence[Node]) -> Iterator[Node]:
    """Each document, and each item of one that is a list of objects."""
    for node in nodes:
        fields = {key.text: value for key, value in node.entries} if isinstance(node, MapNode) else {}
        kind, items = fields.get("kind"), fields.get("items")
        if isinstance(kind, Scalar) and kind.text == "List" and isinstance(items, ListNode):
            yield from items.items
        else:
            yield node


def _is_job(manifest: Any) -> bool:
    """Tells whether it is to be read; malformed manifests are, for the error of their fault."""
    version = manifest.get("apiVersion") if isinstance(manifest, dict) else None
    if not isinstance(version, str) or version.startswith(_GROUPS):
        return True
    return version.startswith(_TRAINER) and not _is_runtime(manifest)


def _is_runtime(manifest: Any) -> bool:
    return isinstance(manifest, dict) and manifest.get("kind") in (CLUSTER_RUNTIME, RUNTIME)


def _runtimes(manifests: Iterable[Any]) -> Lookup:
    """The runtimes of a file, by kind and name, and the standard ones; their namespace is unknown here."""
    found = {
        (each["kind"], name): each
        for each in manifests
        if _is_runtime(each) and isinstance(about := each.get("metadata"), dict) and (name := about.get("name"))
    }
    return lambda kind, namespace, name: found.get((kind, name)) or built_in(kind, namespace, name)


def _names(node: Node) -> set[str]:
    return {key.text for key, _ in node.entries} if isinstance(node, MapNode) else set()


def _place(node: Node, path: FieldPath) -> Place:
    """The place of a field, or of the nearest field around it."""
    place = node.place
    for part in path:
        if isinstance(node, ListNode) and isinstance(part, int):
            node = node.items[part]
            place = node.place
        elif isinstance(node, MapNode) and (entry := next((e for e in node.entries if e[0].text == part), None)):
            place, node = entry[0].place, entry[1]
        else:
            return place
    return place


class _Dumper(getattr(yaml, "CSafeDumper", yaml.SafeDumper)):  # type: ignore[misc]
    """YAML writer that repeats shared parts, without aliases, and writes texts of several lines as blocks."""

    def ignore_aliases(self, _data: Any) -> bool:
        """Returns True: no aliases are written."""
        return True


def _text(dumper: Any, text: str) -> Any:
    """Texts that other readers of YAML would take for numbers or for yes and no are quoted."""
    odd = text[:1] in tuple("0123456789+-.") or text in ("y", "Y", "n", "N")
    style = "|" if "\n" in text else "'" if odd else None
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style=style)


_Dumper.add_representer(str, _text)


def as_yaml(objects: Sequence[Manifest]) -> str:
    """Objects as documents of one file, for kubectl."""
    written: str = yaml.dump_all(objects, Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=120)
    return written


def as_list(objects: Sequence[Manifest]) -> Manifest:
    """The same as one object, which kubectl takes as well."""
    return {"apiVersion": "v1", "kind": "List", "items": list(objects)}
