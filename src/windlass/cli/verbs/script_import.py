"""`windlass import`: makes a job file of a file of Slurm, SkyPilot or TorchX, and names what the job lacks."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from windlass.cli.errors import UsageError
from windlass.cli.exit_codes import ExitCode


def import_(
    script: Annotated[str, typer.Argument(metavar="FILE", help="A batch script, task or app; - for standard input.")],
    arguments: Annotated[
        list[str] | None,
        typer.Argument(metavar="[ARGS]...", help="Arguments of a script or component, after --."),
    ] = None,
    output: Annotated[
        str, typer.Option("-o", "--output", metavar="FILE", help="The job file; - is standard output.")
    ] = "-",
    queue: Annotated[str, typer.Option("--queue", help="The queue of the job, instead of that in the file.")] = "",
    force: Annotated[bool, typer.Option("--force", help="Overwrite the job file if it exists.")] = False,
    strict: Annotated[bool, typer.Option("--strict", help="Exit with 1 if a part of the file is lost.")] = False,
) -> int:
    """Import a file of Slurm, SkyPilot or TorchX as a job file. Prints what the job lacks or has otherwise.

    Scripts run unchanged as the command of the ranks, with the variables of Slurm or SkyPilot.
    """
    from windlass.jobs.description.job_file import loads  # noqa: PLC0415 - loads the YAML parser
    from windlass.jobs.imported_file import ImportedFile, import_file  # noqa: PLC0415
    from windlass.jobs.imports.imported_job import with_queue  # noqa: PLC0415
    from windlass.jobs.syntax.text import STDIN, read_text  # noqa: PLC0415

    if output != STDIN and Path(output).exists() and not force:
        raise UsageError(f"{output} exists\nadd --force to overwrite it, or name another file")
    imported = import_file(read_text(script), arguments or [])
    if queue:
        imported = ImportedFile(imported.kind, tuple(with_queue(job, queue) for job in imported.jobs))
    text = imported.text(script)
    loads(text, source=f"job of {script}")
    if output == STDIN:
        print(text, end="")
    else:
        Path(output).write_text(text, encoding="utf-8")
    losses = [loss for job in imported.jobs for loss in job.losses]
    for loss in losses:
        print(f"windlass: {script}: {loss}", file=sys.stderr)
    return ExitCode.FAILED if strict and losses else ExitCode.OK
