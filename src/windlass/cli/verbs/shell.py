"""The verbs `completion` and `version`."""

from __future__ import annotations

import platform
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer
from typer.completion import get_completion_script  # type: ignore[attr-defined]  # not exported by typer

import windlass
from windlass.cli.exit_codes import ExitCode
from windlass.cli.terminal.output import Format, FormatOption, print_structured


class _Shell(StrEnum):
    BASH = "bash"
    ZSH = "zsh"
    FISH = "fish"


def completion(shell: Annotated[_Shell, typer.Argument(help="The shell.")]) -> int:
    """Print the completion script; for bash: eval "$(windlass completion bash)" in ~/.bashrc."""
    print(get_completion_script(prog_name="windlass", complete_var="_WINDLASS_COMPLETE", shell=shell.value))
    return ExitCode.OK


def version(output: FormatOption = Format.TABLE) -> int:
    """Print the version, the Python version and the platform."""
    facts = {
        "version": windlass.__version__,
        "python": platform.python_version(),
        "platform": platform.platform(),
        "installed": str(Path(windlass.__file__).parent),
    }
    if output is Format.WIDE:
        print(*(f"{name}: {value}" for name, value in facts.items()), sep="\n")
    elif not print_structured(facts, output, facts["version"]):
        print(f"windlass {facts['version']}")
    return ExitCode.OK
