"""The jobs of a task file of SkyPilot: one for each task; the tasks of a pipeline run one after another."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import PurePath
from typing import Any

from windlass.jobs.errors import InputError
from windlass.jobs.imports.file_entry import FileEntry, whole_document
from windlass.jobs.imports.imported_job import ImportedJob, collect, imported_job
from windlass.jobs.imports.outcomes import Loss
from windlass.jobs.skypilot.resources import read_resources
from windlass.jobs.skypilot.shell_command import script_losses, shell_command
from windlass.jobs.skypilot.task_fields import HEADER, KNOWN, task_outcomes
from windlass.jobs.syntax.command_line import procs_of
from windlass.jobs.syntax.names import MAX_NAME, valid_name
from windlass.jobs.syntax.text import STDIN, Text
from windlass.jobs.syntax.yaml_tree import MapNode, Node, Scalar

_OWN = frozenset({"resources", "num_nodes", "setup", "run", "envs", "file_mounts", "service"})
"""Fields by which a file is recognised."""
MAX_SCRIPT = 100 * 1024
"""Bytes of `setup` or `run`: Linux limits one word of a command to 128 KiB."""


def is_task_file(documents: Sequence[Node]) -> bool:
    """Tells whether these documents are tasks of SkyPilot: one of them has a field of tasks alone."""
    mappings = [{key.text for key, _ in each.entries} for each in documents if isinstance(each, MapNode)]
    return any(names & _OWN for names in mappings) and not any(names & {"kind", "roles"} for names in mappings)


def import_tasks(text: Text, documents: Sequence[Node]) -> list[ImportedJob]:
    """The jobs of all tasks of a file. Raises InputError if SkyPilot would refuse it."""
    # 1. A first document of a name alone, or of a group of jobs, is no task. A scalar after the tasks is ignored.
    entries = [whole_document(text, each) for each in documents if not isinstance(each, Scalar)]
    header = entries[0].mapping() if len(entries) > 1 else {}
    header = header if header.keys() <= HEADER else {}
    tasks = entries[1:] if header else entries
    # 2. One job for each task, each with a name.
    stem = "job" if text.source in (STDIN, "<stdin>") else valid_name(PurePath(text.source).stem.split(".")[0])
    names = [stem] if len(tasks) == 1 else [f"{stem[: MAX_NAME - 5]}-{number}" for number in range(1, len(tasks) + 1)]
    jobs = [_import_task(task, name) for task, name in zip(tasks, names, strict=True)]
    # 3. Tasks of a pipeline run one after another, those of a group at once.
    is_group = "execution" in header and header["execution"].text() == "parallel"
    jobs = jobs if is_group else _chained(jobs, tasks)
    lost = tuple(_header_losses(header, is_group=is_group))
    return [replace(jobs[0], losses=(*lost, *jobs[0].losses)), *jobs[1:]]


def _header_losses(header: Any, *, is_group: bool) -> Iterator[Loss]:
    if is_group:
        yield header["execution"].lost("the jobs start one by one, as nodes are free; one gang needs roles")
    if "name" in header:
        yield header["name"].lost("the jobs of a file have no common name; write labels")
    for name in ("primary_tasks", "termination_delay"):
        if name in header:
            yield header[name].lost("no job ends because another has ended; use windlass cancel")


def _chained(jobs: Sequence[ImportedJob], tasks: Sequence[FileEntry]) -> list[ImportedJob]:
    names = [job.fields["name"] for job in jobs]
    for number, name in enumerate(names):
        if name in names[:number]:
            raise tasks[number].mapping()["name"].error(f"is {name} twice; give each task of a pipeline its own name")
    following = zip(names, jobs[1:], strict=False)
    return [*jobs[:1], *(replace(job, fields={**job.fields, "after": [before]}) for before, job in following)]


def _import_task(task: FileEntry, name: str) -> ImportedJob:
    """The job of one task."""
    fields = task.mapping(KNOWN)
    if "run" not in fields or not fields["run"].text().strip():
        raise InputError([task.source.problem("the task has no run, so it starts nothing; write one", task.place)])
    job: dict[str, Any] = {"name": name}
    losses = list[Loss]()
    # 1. Fields that mean the same whatever the others are, then the size of a node.
    collect(task_outcomes(fields), job, losses)
    outcomes, gpus = read_resources(fields.get("resources"))
    collect(outcomes, job, losses)
    nodes = fields["num_nodes"].whole(1, 10**5) if "num_nodes" in fields else 1
    if "elastic" in job:
        job["elastic"] = {"min": min(job["elastic"]["min"], nodes), "max": nodes}
    elif nodes > 1:
        job["nodes"] = nodes
    # 2. Each node runs setup and run once: one process of the launcher, which starts the ranks.
    scripts = {each: _script(fields[each]) if each in fields else "" for each in ("setup", "run")}
    job["launcher"] = "torchrun"
    if procs := procs_of(scripts["run"].split()):
        job["procs"] = procs
    job["command"] = shell_command(job["name"], scripts["setup"], scripts["run"], gpus)
    # 3. Commands that differ.
    for each in ("setup", "run"):
        losses += script_losses(fields[each], nodes) if each in fields else ()
    if scripts["setup"]:
        losses.append(fields["setup"].lost("it runs on every node at each start, also after a restart"))
    return imported_job(job, losses)


def _script(entry: FileEntry) -> str:
    """The text of a script. Raises InputError."""
    if len(entry.text().encode()) > MAX_SCRIPT:
        raise entry.error(f"is larger than {MAX_SCRIPT >> 10} KiB, which no command can hold; call a file from it")
    return entry.text()
