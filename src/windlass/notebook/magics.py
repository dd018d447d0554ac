"""The magics: `%%windlass` runs a cell on ranks, `%windlass VERB` asks about jobs."""

from __future__ import annotations

import shlex
import subprocess
import sys
from typing import Any

from windlass.client.errors import InvalidRequestError, WindlassError, public_errors
from windlass.notebook.cell_job import run_on_ranks
from windlass.notebook.cell_options import read_cell_options

VERBS = ("status", "why", "queue", "logs")
_PROGRAM = "from windlass.cli.entry import main; main()"
_MISUSE = f"%windlass {'|'.join(VERBS)} JOB, or %%windlass -N 2 above a cell"


class CellError(Exception):
    """An error that a notebook shows as its text alone: no traceback of Windlass helps its reader."""

    def _render_traceback_(self) -> list[str]:
        """The lines that IPython prints."""
        return str(self).splitlines()


def register_magics(shell: Any) -> None:
    """Registers the magic `windlass` for lines and for cells."""

    def windlass(line: str, cell: str | None = None) -> object:
        """`%%windlass -N 2` runs a cell on two ranks; `%windlass status|why|queue|logs JOB` asks about jobs."""
        try:
            with public_errors():
                if cell is not None:
                    return _run_cell(shell, line, cell)
                _run_verb(line)
                return None
        except WindlassError as error:
            raise CellError(f"windlass: {error}") from None
        except KeyboardInterrupt:
            raise CellError("interrupted") from None

    shell.register_magic_function(windlass, "line_cell", "windlass")


def _run_cell(shell: Any, line: str, cell: str) -> object:
    """Runs a cell on the ranks of a job; returns the value of its last line."""
    options = read_cell_options(line)
    if options is None:
        return None
    value = run_on_ranks(options, cell, shell.user_ns)
    if not options.result:
        return value
    shell.user_ns[options.result] = value
    return None


def _run_verb(line: str) -> None:
    """Runs a verb of the command line that only reads, and prints its output. Raises InvalidRequestError."""
    words = shlex.split(line)
    if not words or words[0] not in VERBS:
        raise InvalidRequestError(f"{' '.join(words)[:40] or 'nothing'} is no verb of this magic", _MISUSE)
    command = [sys.executable, "-c", _PROGRAM, *words]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as process:
        assert process.stdout is not None  # noqa: S101 - it is a pipe
        try:
            for text in process.stdout:
                print(text, end="", flush=True)
        except KeyboardInterrupt:
            process.terminate()
            raise
