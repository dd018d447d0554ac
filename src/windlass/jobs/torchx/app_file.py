"""The job of an AppDef of TorchX that is written as YAML or JSON, with the names of `torchx.specs`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from types import MappingProxyType

from windlass.jobs.errors import InputError
from windlass.jobs.imports.file_entry import FileEntry, whole_document
from windlass.jobs.imports.imported_job import ImportedJob, imported_job
from windlass.jobs.imports.outcomes import Loss
from windlass.jobs.syntax.names import IMAGE, JOB_NAME, VARIABLE, is_name
from windlass.jobs.syntax.text import Text
from windlass.jobs.syntax.yaml_tree import ListNode, MapNode, Node
from windlass.jobs.torchx.role import AppRole, job_fields

_APP = ("name", "roles", "metadata")
_REASONS: Mapping[str, str] = MappingProxyType(
    {
        "base_image": "TorchX does not use it any more",
        "metadata": "it is for another scheduler; write the fields of a job file",
        "mounts": "nothing is mounted on this machine; write volumes into pod",
        "overrides": "it is for another scheduler",
        "workspace": "run windlass submit where the code is; on a cluster --ship ships it",
    }
)
"""Field of a role → what becomes of it."""
_ROLE = frozenset(
    {"name", "image", "min_replicas", "entrypoint", "args", "env", "num_replicas", "max_retries", "retry_policy"}
    | {"resource", "port_map", *_REASONS}
)
_RESOURCE = ("cpu", "gpu", "memMB", "capabilities", "devices", "tags")
_MAX = 10**6


def is_app_file(documents: Sequence[Node]) -> bool:
    """Tells whether this is an AppDef, or a list or a document of a single role."""
    for node in documents:
        if isinstance(node, MapNode):
            entries = {key.text: value for key, value in node.entries}
            if isinstance(entries.get("roles"), ListNode) or {"entrypoint", "image"} <= entries.keys():
                return True
    return False


def import_app(text: Text, documents: Sequence[Node]) -> ImportedJob:
    """The job of an app. Raises InputError if TorchX would refuse it."""
    entry = whole_document(text, documents[0])
    if len(documents) > 1:
        problem = text.problem("an app of TorchX is a single document; import each from a file", documents[1].place)
        raise InputError([problem])
    keys = {key.text for key, _ in documents[0].entries} if isinstance(documents[0], MapNode) else set()
    if "roles" not in keys:
        role = entry.mapping(_ROLE)
        name, roles = role.get("name"), [role]
    else:
        app = entry.mapping(_APP)
        name, roles = app.get("name"), [each.mapping(_ROLE) for each in app["roles"].items()]
        if not roles:
            raise app["roles"].error("expects at least one role")
    losses = [loss for role in roles for loss in _role_losses(role)]
    losses += _retry_losses(roles)
    if name and not is_name(JOB_NAME, name.text()):
        losses.append(name.lost("a name has small letters, digits and dashes"))
    if "roles" in keys and "metadata" in app and app["metadata"].mapping():
        losses.append(app["metadata"].lost(_REASONS["metadata"]))
    return imported_job(job_fields(name.text() if name else "app", [_role(entry, each) for each in roles]), losses)


def _role(app: FileEntry, fields: Mapping[str, FileEntry]) -> AppRole:
    if "entrypoint" not in fields or not fields["entrypoint"].text():
        place = next(iter(fields.values()), app).place
        raise InputError([app.source.problem("a role lacks entrypoint: the program that it runs", place)])
    env = fields["env"].mapping() if "env" in fields else {}
    for name, value in env.items():
        if not is_name(VARIABLE, name):
            raise value.error("cannot be the name of a variable")
    resource = fields["resource"].mapping(_RESOURCE) if "resource" in fields else {}
    return AppRole(
        name=fields["name"].text() if "name" in fields else "worker",
        command=[fields["entrypoint"].text(), *(item.text() for item in _items(fields, "args"))],
        image=fields["image"].text() if "image" in fields else "",
        env={name: value.text() for name, value in env.items()},
        replicas=_number(fields, "num_replicas", 1, least=1),
        min_replicas=_number(fields, "min_replicas", 0),
        max_retries=_number(fields, "max_retries", 0),
        cpu=_number(resource, "cpu", 0),
        gpu=_number(resource, "gpu", 0),
        mem_mb=_number(resource, "memMB", 0),
    )


def _items(fields: Mapping[str, FileEntry], name: str) -> list[FileEntry]:
    return fields[name].items() if name in fields else []


def _number(fields: Mapping[str, FileEntry], name: str, default: int, least: int = -1) -> int:
    return fields[name].whole(least, _MAX) if name in fields and not fields[name].is_empty else default


def _role_losses(fields: Mapping[str, FileEntry]) -> Iterator[Loss]:
    for name, reason in _REASONS.items():
        if name in fields and not _has_nothing(fields[name]):
            yield fields[name].lost(reason)
    if "image" in fields and not is_name(IMAGE, fields["image"].text()):
        yield fields["image"].lost("it is no container image; the program is what is installed")
    policy = fields["retry_policy"].text() if "retry_policy" in fields else "APPLICATION"
    if policy not in ("APPLICATION", "RetryPolicy.APPLICATION"):
        yield fields["retry_policy"].lost("a lost replica restarts the whole gang")
    resource = fields["resource"].mapping() if "resource" in fields else {}
    for name in ("capabilities", "devices", "tags"):
        if name in resource and not _has_nothing(resource[name]):
            yield resource[name].lost("write selector, gpu_type or network for what it asks of a node")


def _has_nothing(entry: FileEntry) -> bool:
    node = entry.node
    return not (node.items if isinstance(node, ListNode) else node.entries if isinstance(node, MapNode) else node.value)


def _retry_losses(roles: Sequence[Mapping[str, FileEntry]]) -> Iterator[Loss]:
    """Roles with other retries than the most: a job has one number."""
    retries = [_number(each, "max_retries", 0) for each in roles]
    for fields, number in zip(roles, retries, strict=True):
        if number != max(retries) and "max_retries" in fields:
            yield fields["max_retries"].lost(f"roles restart together, at most {max(retries)} times")
