"""Reads job files, short YAML with one job in each document, into submissions."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from windlass.jobs.description.fields import JOB
from windlass.jobs.description.options import RunOptions, flag_of, override, read_options
from windlass.jobs.description.resolution import Values, check, resolve
from windlass.jobs.description.submission import Submission
from windlass.jobs.errors import InputError, Problem, input_error
from windlass.jobs.syntax.table_reader import Reader
from windlass.jobs.syntax.text import STDIN, Text, decode, read_text
from windlass.jobs.syntax.yaml_tree import MapNode, Node, Scalar, compose

_FOR_MANIFESTS = "--on kubernetes"
"""The option with which most verbs take manifests."""


def load(
    path: str,
    options: RunOptions | None = None,
    command: Sequence[str] = (),
    *,
    cwd: str = ".",
    user: str = "",
    for_manifests: str = _FOR_MANIFESTS,
) -> list[Submission]:
    """The jobs of a file, or of standard input for "-". Raises InputError with the problems of every document.

    `options` and `command`, from the command line, win over each job of the file. `cwd`: the folder to which a workdir
    in the options or in standard input is relative. `for_manifests`: the option that the error names if the file holds
    manifests.
    """
    text = read_text(path)
    in_a_folder = path != STDIN and Path(path).is_file()  # a pipe, as of `submit <(…)`, is in no folder
    base = str(Path(path).absolute().parent) if in_a_folder else cwd
    return _load(text, base, options or RunOptions(), command, cwd, user, for_manifests)


def loads(
    data: str | bytes,
    *,
    source: str = "<text>",
    base: str = ".",
    user: str = "",
    options: RunOptions | None = None,
    command: Sequence[str] = (),
) -> list[Submission]:
    """The jobs of a text, under `options` and `command`. Raises InputError."""
    text = decode(data, source) if isinstance(data, bytes) else Text(source, data)
    return _load(text, base, options or RunOptions(), command, base, user)


def _load(
    text: Text,
    base: str,
    options: RunOptions,
    command: Sequence[str],
    cwd: str,
    user: str,
    for_manifests: str = _FOR_MANIFESTS,
) -> list[Submission]:
    given = read_options(options, command)
    documents = compose(text)
    _refuse_manifests(text, documents, for_manifests)
    _refuse_tasks(text, documents)
    if not documents:
        raise input_error(text.source, "the file holds no job; write for example command: python train.py")
    if "name" in given and len(documents) > 1:
        raise input_error("--name", f"the file holds {len(documents)} jobs, and all would be called {given['name']!r}")
    problems: list[Problem] = []
    read = [_read_document(text, node, given, cwd, problems) for node in documents]
    if problems:
        raise InputError(problems)
    return [resolve(values, base=base, user=user, source=text.source) for values in read]


_OF_SKYPILOT = frozenset({"resources", "num_nodes", "setup", "envs", "file_mounts", "service"})
"""Fields that a task of SkyPilot has beside `run`, and that no job has."""


def _refuse_tasks(text: Text, documents: Sequence[Node]) -> None:
    """Raises one error for a task of SkyPilot, and not one for each of its fields."""
    for node in documents:
        fields = {key.text: key.place for key, _ in node.entries} if isinstance(node, MapNode) else {}
        if "run" in fields and "command" not in fields and fields.keys() & _OF_SKYPILOT:
            fix = "windlass import makes a job file of it"
            raise InputError([text.problem(f"this is a task of SkyPilot, not a job file; {fix}", fields["run"])])


def _refuse_manifests(text: Text, documents: Sequence[Node], option: str) -> None:
    """Raises one error for a manifest, and not one for each of its fields."""
    for node in documents:
        fields = {key.text: (key.place, value) for key, value in node.entries} if isinstance(node, MapNode) else {}
        if "apiVersion" in fields and "kind" in fields:
            place, kind = fields["kind"]
            what = f"manifest of kind {kind.text[:40]}" if isinstance(kind, Scalar) else "manifest"
            raise InputError([text.problem(f"this is a {what}, not a job file; add {option}", place)])


def _read_document(text: Text, node: Node, given: Values, cwd: str, problems: list[Problem]) -> Values:
    """The fields of one document under those of the command line; adds faults to `problems`."""
    reader = Reader(text)
    written = reader.table(node, JOB, (), "a job")
    if reader.problems:
        problems += reader.problems
        return {}
    values = override(written, given, cwd=cwd)
    for path, message in check(values):
        if path and path[0] in given:
            problems.append(Problem(flag_of(path), message))
        else:
            problems.append(reader.problem_at(path, message))
    return values
