"""Modules that the first use of a client loads."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

_FIRST_USE = """
import sys, windlass
try:
    windlass.Client("local", state=sys.argv[1]).list()
except windlass.NoDaemonError:
    pass
print([each for each in ("typer", "click", "rich") if each in sys.modules])
"""


def test_the_first_use_of_a_client_loads_no_library_of_terminals(tmp_path: Path):
    command = [sys.executable, "-c", _FIRST_USE, str(tmp_path)]
    assert subprocess.run(command, capture_output=True, text=True, check=True, timeout=60).stdout == "[]\n"
