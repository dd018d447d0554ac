"""Finds the frame of the program in the traceback that an exception's line ends."""

from __future__ import annotations

import re
from collections.abc import Iterable

from windlass.diagnose.failures.line_prefix import read_prefixes

TRACEBACK = "Traceback (most recent call last)"
FRAME = re.compile(r'\s*File "(?P<file>[^"]{1,400})", line \d+')
INSTALLED = re.compile(r"(?:^|[/\\])(?:site-packages|dist-packages|[Ll]ib|lib64|python[\d.]+)[/\\]|^<")
"""Paths of installed packages and of Python itself."""
_LINES_OF_FRAME = 3
"""Maximum number of lines after a frame's head until the next frame or the exception: code, marks, a note."""


def find_program_frame(newest_first: Iterable[tuple[int, bytes]]) -> tuple[int, str] | None:
    """The number and text of the innermost frame outside of installed packages, or of the innermost frame.

    `newest_first`: numbered lines back from the exception, with the exception itself. Lines of other ranks between
    them are passed over. None where the exception ends no traceback.
    """
    innermost: tuple[int, str] | None = None
    rank, passed = None, -1
    for number, line in newest_first:
        origin = read_prefixes(line.decode("utf-8", "replace"))
        rank = origin.rank if passed < 0 else rank
        if origin.rank != rank:
            continue
        passed += 1
        if TRACEBACK in origin.message or passed > _LINES_OF_FRAME:
            break
        if frame := FRAME.match(origin.message):
            innermost, passed = innermost or (number, origin.message.strip()), 0
            if not INSTALLED.search(frame["file"]):
                return number, origin.message.strip()
    return innermost
