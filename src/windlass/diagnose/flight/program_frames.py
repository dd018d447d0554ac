"""Tells frames of a program from those of the libraries that it calls."""

from __future__ import annotations

from collections.abc import Iterable

from windlass.diagnose.flight.records import SourceFrame

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
        if not _is_in(frame, _FOREIGN + _MACHINERY):
            return frame
        if library is None and not _is_in(frame, _MACHINERY):
            library = frame
    return library


def _is_in(frame: SourceFrame, paths: tuple[str, ...]) -> bool:
    return any(path in frame.file for path in paths)
