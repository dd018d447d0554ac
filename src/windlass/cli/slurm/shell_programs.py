"""Programs by Slurm's names for the shell of an allocation: `srun` and `scontrol` there are those of Windlass."""

from __future__ import annotations

import contextlib
import shlex
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

_PROGRAMS = ("srun", "scontrol")
_START = "import sys; from windlass.cli import main; sys.exit(main())"


@contextlib.contextmanager
def slurm_programs() -> Iterator[Path]:
    """A folder with the programs, which goes first in PATH; it is deleted at the end."""
    python = shlex.quote(sys.executable)
    with tempfile.TemporaryDirectory(prefix="windlass-salloc-") as name:
        for program in _PROGRAMS:
            path = Path(name, program)
            path.write_text(f'#!/bin/sh\nexec {python} -P -c "{_START}" {program} "$@"\n')
            path.chmod(0o700)
        yield Path(name)
