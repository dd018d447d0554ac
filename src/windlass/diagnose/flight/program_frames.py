"""Tells frames of a program from those of the libraries that it calls."""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache

from windlass.diagnose.flight.records import SourceFrame

_CACHED_PATHS = 8192
_FOREIGN = ("-packages/", "/lib/python3", "<frozen", "<string>")
"""Parts of the paths of installed libraries."""
_MACHINERY = ("-packages/torch/", "/windlass/train/", "/windlass/agent/", "<frozen", "<string>")
"""Parts of the paths of code that every program runs through."""


def program_frame(frames: Iterable[SourceFrame]) -> SourceFrame | None:
    """Returns the innermost frame of the program, or of a library of its own where all frames are of libraries.

    `frames`: from the innermost to the outermost; read as far as needed.
    """
    library = None
    for frame in frames:
        if not _is_in(frame.file, _FOREIGN + _MACHINERY):
            return frame
        if library is None and not _is_in(frame.file, _MACHINERY):
            library = frame
    return library


@lru_cache(maxsize=_CACHED_PATHS)
def _is_in(file: str, paths: tuple[str, ...]) -> bool:
    return any(path in file for path in paths)
