"""Packs the agent into one file (a zipapp), for images that have Python (3.9 or newer) and torch, but no Windlass."""

from __future__ import annotations

import os
import shutil
import tempfile
import zipapp
from pathlib import Path

from windlass.agent.fork_server.client import ROOT

_MAIN = "import sys\n\nfrom windlass.agent.entry import main\n\nsys.exit(main(sys.argv[1:]))\n"
_PARTS = ("__init__.py", "wire.py", "agent")


def pack(to: str) -> None:
    """Writes the file, executable, with a first line for /usr/bin/env. Raises OSError."""
    if os.path.isfile(ROOT):  # packed already
        shutil.copy(ROOT, to)
        return
    with tempfile.TemporaryDirectory() as folder:
        package = Path(folder, "windlass")
        package.mkdir()
        for part in _PARTS:
            source = Path(ROOT, "windlass", part)
            if source.is_dir():
                shutil.copytree(source, package / part, ignore=shutil.ignore_patterns("__pycache__"))
            else:
                shutil.copy(source, package / part)
        Path(folder, "__main__.py").write_text(_MAIN)
        zipapp.create_archive(folder, to, interpreter="/usr/bin/env python3", compressed=True)
