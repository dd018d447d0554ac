"""Reads options of the command line as a job, or merges them over the jobs of a file."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

from windlass.hardware.network.profiles import NAMES
from windlass.jobs.description.fields import job_field
from windlass.jobs.description.network import NETWORK
from windlass.jobs.description.placement_fields import ELASTIC
from windlass.jobs.description.resolution import Values, check, resolve
from windlass.jobs.description.submission import Submission
from windlass.jobs.errors import InputError, Problem
from windlass.jobs.syntax.field import Field, Shape
from windlass.jobs.syntax.names import is_name
from windlass.jobs.syntax.settings_line import read_line

COMMAND_LINE = "command line"


@dataclass(frozen=True, slots=True)
class RunOptions:
    """Options as typed: None or empty is "not given". Names are those of the fields in `fields.JOB`."""

    name: str | None = None
    nodes: str | None = None
    """ "2", or "2:8" for an elastic job."""
    gpus: int | None = None
    gpu_share: str | None = None
    mig: str | None = None
    gpu_type: tuple[str, ...] = ()
    """Commas between several, best first."""
    procs: int | None = None
    mesh: str | None = None
    cpus: str | None = None
    mem: str | None = None
    queue: str | None = None
    priority: int | None = None
    time: str | None = None
    deadline: str | None = None
    start_timeout: str | None = None
    unreachable_grace: str | None = None
    ttl: str | None = None
    grace: str | None = None
    restarts: int | None = None
    array: str | None = None
    cron: str | None = None
    time_zone: str | None = None
    cron_policy: str | None = None
    cron_deadline: str | None = None
    cron_keep: int | None = None
    cron_keep_failed: int | None = None
    begin: str | None = None
    workdir: str | None = None
    launcher: str | None = None
    agent: str | None = None
    suspend: bool | None = None
    image: str | None = None
    network: str | None = None
    env: tuple[str, ...] = ()
    """ "NAME=value" each."""
    selector: tuple[str, ...] = ()
    """ "label=value" each."""
    affinity: tuple[str, ...] = ()
    """One term each."""
    avoid: tuple[str, ...] = ()
    """Commas between several."""
    whole_node: bool | None = None
    topology: str | None = None
    """ "LEVEL", or with more of its fields: "rack,preferred,slice=4"."""
    preemptible: bool | None = None
    after: tuple[str, ...] = ()
    """ "NAME" or "CONDITION:NAME" each, commas between several."""


def from_options(options: RunOptions, command: Sequence[str], *, cwd: str, user: str) -> Submission:
    """The job of `windlass run OPTIONS -- COMMAND`. Raises InputError."""
    values = read_options(options, command)
    problems = [Problem(flag_of(path), message) for path, message in check(values)]
    if problems:
        raise InputError(problems)
    return resolve(values, base=cwd, user=user, source=COMMAND_LINE)


def read_options(options: RunOptions, command: Sequence[str] = ()) -> dict[str, Any]:
    """The fields that were given. Raises InputError with a problem for each that cannot be read."""
    values: dict[str, Any] = {}
    problems: list[Problem] = []
    for name, given in _given(options):
        field = job_field(name)
        try:
            values |= _size(given) if name == "nodes" else {name: _read(field, given)}
        except ValueError as error:
            problems.append(Problem(field.flags[-1], str(error)))
    if command:
        values["command"] = tuple(command)
    problems += [Problem(COMMAND_LINE, text) for text in _undecodable(options, command)]
    if problems:
        raise InputError(problems)
    return values


def override(values: Values, given: Values, *, cwd: str) -> dict[str, Any]:
    """A file's fields under those of the command line, whose workdir is relative to `cwd`. Raises InputError."""
    given = _over_roles(values, given) if "roles" in values else dict(given)
    if "workdir" in given:
        given["workdir"] = str(Path(cwd, given["workdir"]).absolute())
    merged = {**values, **given}
    for size, other in (("nodes", "elastic"), ("elastic", "nodes")):
        if size in given:
            merged.pop(other, None)
    if given.keys() & _GPUS:
        merged = {name: value for name, value in merged.items() if name in given or name not in _GPUS}
    for mapping in ("env", "selector"):
        if mapping in given and mapping in values:
            merged[mapping] = {**values[mapping], **given[mapping]}
    if "restarts" in given:
        merged["restart"] = {k: v for k, v in values.get("restart", {}).items() if k != "user"}
    return merged


_GPUS = {"gpus", "gpu_share", "mig"}
_OF_A_REPLICA = (
    *("nodes", "elastic", "gpus", "gpu_share", "mig", "procs", "cpus", "mem"),
    *("selector", "affinity", "whole_node", "command", "mesh"),
)


def _over_roles(values: Values, given: Values) -> dict[str, Any]:
    """Options for a job of several roles: env, image and network apply to each; others of a replica are ambiguous."""
    single = [name for name in _OF_A_REPLICA if name in given]
    if single:
        names = ", ".join(values["roles"])
        raise InputError(
            [Problem(flag_of((name,)), f"the job has roles ({names}); write {name} there") for name in single]
        )
    env = given.get("env", {})
    of_each = {name: given[name] for name in ("image", "network") if name in given}
    roles = {name: {**role, **of_each, "env": {**role.get("env", {}), **env}} for name, role in values["roles"].items()}
    return {**given, "roles": roles}


def flag_of(path: Sequence[str | int]) -> str:
    """The option of a field, for errors."""
    if not path:
        return COMMAND_LINE
    flags = job_field("nodes" if path[0] == ELASTIC.name else str(path[0])).flags
    return flags[-1] if flags else COMMAND_LINE


def _given(options: RunOptions) -> Iterator[tuple[str, Any]]:
    for field in fields(options):
        value = getattr(options, field.name)
        if value is not None and value != ():
            yield field.name, value


def _read(field: Field, given: Any) -> Any:
    if field.shape is Shape.MAP:
        return dict(_pair(text, field) for text in given)
    if field.shape is Shape.LIST:
        words = [word for text in given for word in (text.split(",") if field.split_on_commas else [text])]
        return [field.value_type.read(word) for word in words]
    if field.shape is Shape.TABLE:
        return read_line(field.table, given)
    return field.value_type.read(given)


def _size(given: str) -> dict[str, Any]:
    """A size or a range of sizes: "2", "2:8" (torchrun's form) or "2-8" (Slurm's)."""
    found = re.fullmatch(r"([0-9]{1,9})(?:[:-]([0-9]{1,9}))?", given)
    if found is None:
        raise ValueError(f"expects a number such as 2, or MIN:MAX for an elastic job, not {given[:40]!r}")
    bounds = [ELASTIC.table[0].value_type.read(int(number)) for number in found.groups() if number]
    if len(bounds) == 1:
        return {"nodes": bounds[0]}
    if bounds[0] > bounds[1]:
        raise ValueError(f"expects MIN:MAX with MIN at most MAX, not {given[:40]!r}")
    return {"elastic": {"min": bounds[0], "max": bounds[1]}}


def _pair(text: str, field: Field) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not equals or not name:
        raise ValueError(f"expects {field.key_label.upper()}=value, not {text[:40]!r}")
    if not is_name(field.key_pattern, name):
        raise ValueError(f"{name[:40]!r} cannot be the name of a {field.key_label}")
    return name, field.value_type.read(value)


def _undecodable(options: RunOptions, command: Sequence[str]) -> Iterator[str]:
    """Errors for words that are no UTF-8 or hold a NUL: no file, socket or database could store them."""
    words: list[str] = [*command]
    for _, given in _given(options):
        words += given if isinstance(given, tuple) else [given] if isinstance(given, str) else []
    for word in words:
        if "\0" in word or not _is_unicode(word):
            yield f"{word.encode(errors='replace').decode()[:40]!r} is not valid UTF-8 text"


def _is_unicode(word: str) -> bool:
    try:
        word.encode()
    except UnicodeEncodeError:
        return False
    return True


def help_of(name: str) -> str:
    """One option's help text. Raises KeyError."""
    field = job_field(name)
    return f"{field.help} Default: {field.default}." if field.default else field.help


def expectation_of(name: str, given: str) -> str:
    """The error of a field for an unreadable value: what it accepts; "" if it can be read. Raises KeyError."""
    try:
        job_field(name).value_type.read(given)
    except ValueError as error:
        return str(error)
    return ""


def flags_of(name: str) -> tuple[str, ...]:
    """One option's names. Raises KeyError."""
    return job_field(name).flags


def completions_of(name: str) -> tuple[str, ...]:
    """Words that one option accepts, for the completion of a shell; none if it accepts any. Raises KeyError."""
    if name == NETWORK.name:
        return NAMES
    return tuple(job_field(name).value_type.json.get("enum", ()))
