"""The jobs of a foreign file: a batch script of Slurm, a task file of SkyPilot, or an app or config file of TorchX."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from windlass.jobs.errors import InputError, Place
from windlass.jobs.imports.imported_job import ImportedJob
from windlass.jobs.imports.job_text import job_text
from windlass.jobs.skypilot.task_file import import_tasks, is_task_file
from windlass.jobs.slurm.batch_script import is_batch_script
from windlass.jobs.slurm.imported_job import import_script
from windlass.jobs.syntax.text import Text
from windlass.jobs.syntax.yaml_tree import MapNode, Node, compose
from windlass.jobs.torchx.app_file import import_app, is_app_file
from windlass.jobs.torchx.config_file import import_config, is_config_file


@dataclass(frozen=True, slots=True)
class ImportedFile:
    """The jobs of a file, and what kind of file it is: "batch script"."""

    kind: str
    jobs: tuple[ImportedJob, ...]

    def text(self, source: str) -> str:
        """The job file, one document for each job."""
        return "---\n".join(job_text(job, source, self.kind) for job in self.jobs)


def import_file(text: Text, arguments: Sequence[str] = ()) -> ImportedFile:
    """The jobs of a file. `arguments`: of a script, or as after `torchx run` for a config file. Raises InputError."""
    if is_batch_script(text) or text.text.startswith("#!"):
        return ImportedFile("batch script", (import_script(text, arguments),))
    if is_config_file(text):
        return ImportedFile("config file of TorchX", (import_config(text, arguments),))
    documents = compose(text)
    if is_app_file(documents):
        _refuse_arguments(text, arguments, "an app of TorchX")
        return ImportedFile("app of TorchX", (import_app(text, documents),))
    if is_task_file(documents):
        _refuse_arguments(text, arguments, "a task of SkyPilot")
        return ImportedFile("task file of SkyPilot", tuple(import_tasks(text, documents)))
    raise InputError([text.problem(_unknown(documents), Place(1, 1))])


def _refuse_arguments(text: Text, arguments: Sequence[str], kind: str) -> None:
    if arguments:
        problem = f"{kind} takes no arguments; remove {arguments[0][:40]!r}, or write it into the file"
        raise InputError([text.problem(problem, Place(1, 1))])


def _unknown(documents: Sequence[Node]) -> str:
    if any(isinstance(each, MapNode) and "kind" in {key.text for key, _ in each.entries} for each in documents):
        return "this is a manifest, which needs no import: windlass submit and kubectl apply take it"
    return (
        "this is no batch script (#! and a line that begins with #SBATCH), no task of SkyPilot (a mapping with run) "
        "and no app of TorchX (a mapping with a list of roles, or a .torchxconfig)"
    )
