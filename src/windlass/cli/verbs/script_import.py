"""`windlass import`: makes a job file of a batch script of Slurm, and names what the job lacks."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from windlass.cli.errors import UsageError
from windlass.cli.exit_codes import ExitCode


def import_(
    script: Annotated[str, typer.Argument(metavar="SCRIPT", help="A batch script, or - for standard input.")],
    arguments: Annotated[
        list[str] | None, typer.Argument(metavar="[ARGS]...", help="Arguments of the script; options after --.")
    ] = None,
    output: Annotated[
        str, typer.Option("-o", "--output", metavar="FILE", help="The job file; - is standard output.")
    ] = "-",
    queue: Annotated[str, typer.Option("--queue", help="The queue of the job, instead of the partition.")] = "",
    force: Annotated[bool, typer.Option("--force", help="Overwrite the job file if it exists.")] = False,
    strict: Annotated[bool, typer.Option("--strict", help="Exit with 1 if a part of the script is lost.")] = False,
) -> int:
    """Import a batch script of Slurm as a job file. Prints what the job lacks or has otherwise, with its line.

    The script runs unchanged as the command of the ranks, with SLURM_* variables, srun and scontrol show hostnames.
    """
    from windlass.jobs.description.job_file import loads  # noqa: PLC0415 - loads the YAML parser
    from windlass.jobs.slurm.imported_job import import_script, with_queue  # noqa: PLC0415
    from windlass.jobs.slurm.job_text import job_text  # noqa: PLC0415
    from windlass.jobs.syntax.text import STDIN, read_text  # noqa: PLC0415

    if output != STDIN and Path(output).exists() and not force:
        raise UsageError(f"{output} exists\nadd --force to overwrite it, or name another file")
    job = import_script(read_text(script), arguments or [])
    job = with_queue(job, queue) if queue else job
    text = job_text(job, script)
    loads(text, source=f"job of {script}")
    if output == STDIN:
        print(text, end="")
    else:
        Path(output).write_text(text, encoding="utf-8")
    for loss in job.losses:
        print(f"windlass: {script}: {loss}", file=sys.stderr)
    return ExitCode.FAILED if strict and job.losses else ExitCode.OK
