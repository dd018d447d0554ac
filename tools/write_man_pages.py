"""Writes the manual pages: `python tools/write_man_pages.py FOLDER` makes `FOLDER/man1`, from which builds take them.

Pages have the date of `SOURCE_DATE_EPOCH`, else that of the commit, so that equal sources give equal pages.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path

from windlass.cli.man_pages import man_pages


def main(folder: Path) -> None:
    pages = folder / "man1"
    shutil.rmtree(pages, ignore_errors=True)  # pages of verbs that are gone
    pages.mkdir(parents=True)
    for name, text in man_pages(date_of_sources()):
        (pages / name).write_text(text, encoding="utf-8")


def date_of_sources() -> str:
    """Returns the date as YYYY-MM-DD."""
    seconds = (
        os.environ.get("SOURCE_DATE_EPOCH")
        or subprocess.run(["git", "log", "-1", "--format=%ct"], capture_output=True, text=True, check=True).stdout
    )
    return datetime.fromtimestamp(int(seconds), UTC).date().isoformat()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
