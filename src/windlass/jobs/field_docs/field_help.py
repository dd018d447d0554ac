"""Help on one field of the tables, like `kubectl explain`."""

from __future__ import annotations

import textwrap
from typing import NamedTuple

from windlass.hardware.network.automatic import AUTO_PAGE
from windlass.hardware.network.profiles import AUTO, NAMES, profile_page
from windlass.jobs.cluster.cluster_file import CLUSTER
from windlass.jobs.description.fields import JOB
from windlass.jobs.description.network import NETWORK
from windlass.jobs.errors import InputError, input_error
from windlass.jobs.kubernetes.manifests.own_kinds import OWN_KINDS
from windlass.jobs.syntax.field import Field, Shape, Table
from windlass.jobs.syntax.names import did_you_mean

_WIDTH = 80
_ROOT = "job"
_SPEC = "spec"
_HELP = "A job file holds one job a document. A job is a gang: all of its replicas start together, or none does."


class _Root(NamedTuple):
    """An owner of fields: a job file, a cluster file, or a kind on Kubernetes."""

    path: str
    help: str
    table: Table


_JOB = _Root(_ROOT, _HELP, JOB)
_CLUSTER = _Root("cluster", "A cluster file has nodes, queues and the policy for `windlass up --cluster`.", CLUSTER)
_KINDS = {
    name: _Root(f"{kind.name.lower()}.{_SPEC}", f"Kind {kind.name} of windlass.dev/v1alpha1. {kind.help}", kind.table)
    for kind in OWN_KINDS
    for name in (kind.name.lower(), kind.plural)
}


def explain(path: str = _ROOT) -> str:
    """Help on a field: "job.restart.user" or "restart.user"; "job" or "" lists every field. Raises InputError.

    A role's name, or any word, may stand for NAME in "roles.NAME.gpus". Fields of our kinds on Kubernetes begin with
    the kind: "queue.spec.quota" or "queue.quota"; the kind alone lists them. Those of a cluster file begin with
    "cluster". "network.efa" is a network profile.
    """
    words = [part for part in path.strip().split(".") if part]
    if words[-2:-1] == [NETWORK.name]:
        return _profile(words[-1], ".".join(words[:-1]))
    root, parts = _meant(words)
    table, field, seen = root.table, None, root.path
    for part in parts:
        if field is not None and field.shape is Shape.NAMED and part not in {f.name for f in table}:
            seen = f"{seen}.{part}"
            continue
        field = _find(part, table, seen)
        table, seen = field.table, f"{seen}.{part}"
    return _overview(root) if field is None else _page(seen, field)


def first_names() -> list[str]:
    """Returns the names with which a path begins: fields of a job, kinds, and network profiles."""
    return [
        _ROOT,
        _CLUSTER.path,
        *(field.name for field in JOB),
        *_KINDS,
        *(f"{NETWORK.name}.{name}" for name in NAMES),
    ]


def _profile(name: str, path: str) -> str:
    """The page of a network profile."""
    if name not in NAMES:
        raise input_error(path, f"has no profile {name!r}; profiles: {', '.join(NAMES)}")
    return AUTO_PAGE if name == AUTO else profile_page(name)


def _meant(parts: list[str]) -> tuple[_Root, list[str]]:
    """The owner with which a path begins, and the rest. A single word that is a field of jobs means that field."""
    first = parts[0] if parts else _ROOT
    if first == _CLUSTER.path:
        return _CLUSTER, parts[1:]
    is_field = len(parts) == 1 and any(field.name == first for field in JOB)
    if is_field or first.lower() not in _KINDS:
        return _JOB, parts[1:] if first == _ROOT else parts
    return _KINDS[first.lower()], parts[2:] if parts[1:2] == [_SPEC] else parts[1:]


def _find(name: str, table: Table, seen: str) -> Field:
    for field in table:
        if name == field.name:
            return field
    if not table:
        raise input_error(seen, f"has no fields of its own, so no {name!r}")
    raise _unknown(name, table, seen)


def _unknown(name: str, table: Table, seen: str) -> InputError:
    return input_error(seen, f"has no field {name[:40]!r}{did_you_mean(name, [field.name for field in table])}")


def _overview(root: _Root) -> str:
    plurals = ", ".join(kind.plural for kind in OWN_KINDS)
    kinds = f"\nKINDS ON KUBERNETES\n  {plurals}\n\nCLUSTER FILES\n  {_CLUSTER.path}\n" if root is _JOB else ""
    return f"{root.path}\n\n{_wrap(root.help)}\n\nFIELDS\n{_list(root.table)}\n{kinds}"


def _page(path: str, field: Field) -> str:
    lines = [f"{path}  <{type_of(field)}>", "", _wrap(field.help), ""]
    lines.append(f"DEFAULT  {field.default or 'none: it must be given'}")
    lines.append(f"EXAMPLE  {field.name}: {field.example}")
    if field.flags:
        lines.append(f"OPTION   {', '.join(field.flags)}")
    if path.startswith(f"{_ROOT}.") and field.name in _KINDS:
        lines.append(f"KIND     windlass explain {field.name}s tells of the kind")
    if field.name == NETWORK.name:
        lines += ["", "PROFILES", *(f"  windlass explain network.{name}" for name in NAMES)]
    if field.table:
        lines += ["", "FIELDS", _list(field.table)]
    return "\n".join(lines) + "\n"


def type_of(field: Field) -> str:
    """The values that a field takes, in a few words."""
    words = field.value_type.words
    return {
        Shape.ONE: words,
        Shape.LIST: f"list of: {words}",
        Shape.COMMAND: "line, or list of words",
        Shape.MAP: f"{field.key_label}: value",
        Shape.TABLE: "fields",
        Shape.TABLES: "list of fields",
        Shape.NAMED: f"{field.key_label}: fields",
        Shape.FREE: "mapping",
    }[field.shape]


def _list(table: Table) -> str:
    width = max(len(field.name) for field in table)
    return "\n".join(f"  {field.name:<{width}}  <{type_of(field)}>" for field in table)


def _wrap(text: str) -> str:
    return "\n".join(textwrap.wrap(text, _WIDTH))
