"""`windlass doctor`: finds out why a machine or a job does not work as it should, and prints the fix."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path
from typing import Annotated

import typer

from windlass.cli.exit_codes import ExitCode
from windlass.cli.terminal.report_format import ReportFormat, ReportFormatOption, print_report
from windlass.diagnose.host.checklist import check_host
from windlass.diagnose.host.readers.host_reader import read_host
from windlass.diagnose.steps import is_wrong

doctor = typer.Typer(
    help="Find out what is wrong, and print the fix.",
    add_completion=False,
    rich_markup_mode=None,
    no_args_is_help=True,
    context_settings={"help_option_names": ["-h", "--help"]},
)


@doctor.callback()
def _describe() -> None:
    """Find out what is wrong with a machine, and print the fix."""


@doctor.command("host", short_help="Check this machine from the PCI bus to the framework")
def host(
    root: Annotated[
        Path, typer.Option("--root", help="Where the machine's file systems are mounted, such as /host in a debug pod.")
    ] = Path("/"),
    output: ReportFormatOption = ReportFormat.TEXT,
) -> int:
    """Check this machine: GPUs, driver, NVML, fabric, containers, torch and NCCL, RDMA, limits, disks, clock, name.

    Nothing is changed. Every step is ok, not there, not visible from here, a warning, or wrong; the last two print
    the fix. Exits with 1 if a step is wrong.
    """
    folders = ("/", tempfile.gettempdir(), str(Path.home()), os.environ.get("WINDLASS_STATE", "/"))
    facts = read_host(root, folders=folders, environment=os.environ)
    steps = check_host(facts)
    print_report(facts.host or "host", steps, output)
    return ExitCode.FAILED if is_wrong(steps) else ExitCode.OK
