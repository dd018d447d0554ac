"""Writes the two files of a report."""

from __future__ import annotations

import json
import os
from pathlib import Path

from windlass.backends.simulator.errors import SimulationError
from windlass.backends.simulator.report.build import Report
from windlass.backends.simulator.report.page import render_page

PAGE, DATA = "index.html", "report.json"


def write(report: Report, folder: Path) -> Path:
    """Writes index.html and report.json into a folder, created if missing. Returns the page. Raises SimulationError."""
    texts = {PAGE: render_page(report), DATA: as_json(report)}
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for name, text in texts.items():
            (folder / name).write_text(text, encoding="utf-8", newline="\n")
    except OSError as error:
        raise SimulationError(
            f"{error.filename or folder}: {error.strerror}; name another folder with --report"
        ) from None
    return folder / PAGE


def check_folder(folder: Path) -> None:
    """Raises SimulationError if the report could not be written there; called before a long simulation."""
    there = next(path for path in (folder, *folder.absolute().parents) if path.exists())
    if not there.is_dir() or not os.access(there, os.W_OK):
        problem = "not a folder" if not there.is_dir() else "it may not be written to"
        raise SimulationError(f"{there}: {problem}; name another folder with --report")


def as_json(report: Report) -> str:
    """Returns JSON with one line for each part: arrays are too long for a line per number."""
    parts = (
        f"{json.dumps(name)}: {json.dumps(part, ensure_ascii=False, allow_nan=False, separators=(',', ':'))}"
        for name, part in report.items()
    )
    return "{\n" + ",\n".join(parts) + "\n}\n"
