"""Logs of files, folders and standard input."""

from __future__ import annotations

import errno
import io
import os
import re
import stat
import sys
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import BinaryIO

from windlass.diagnose.failures.evidence import LogSource

STANDARD_INPUT = "-"
WHAT_IS_READ = "name output of ranks, kernel logs, events or flight recorders: text or gzip files, or folders of them"
"""The fix where no log can be read."""
_PROGRAMS = frozenset({".py", ".pyi", ".ipynb", ".sh", ".bash", ".sbatch", ".slurm", ".c", ".cc", ".cpp", ".cu", ".h"})
"""Suffixes of programs. The text of a program contains messages that it has never printed."""
_TREES_OF_TOOLS = frozenset({".git", "__pycache__", "node_modules"})


class NoSuchLogError(Exception):
    """A path that cannot be read. The text states the fix."""


def find_logs(paths: Sequence[str]) -> list[LogSource]:
    """The logs of all paths: files, every file below folders in the order of their names, and `-` for standard input.

    Programs are left out. Raises `NoSuchLogError` for a path that does not exist or cannot be opened, and where all
    files are programs.
    """
    found = dict.fromkeys(name for path in paths for name in _expand(path))
    logs = [name for name in found if not is_program(name)]
    if found and not logs:
        first = next(iter(found))
        more = f" and {len(found) - 1} more" if len(found) > 1 else ""
        raise NoSuchLogError(f"no log can be read: {first}{more}: a program is no log\n{WHAT_IS_READ}")
    return [LogSource(name, partial(_open, name), size=_size(name)) for name in logs]


def is_program(name: str) -> bool:
    """Tells whether a file is a program by its name. Such a file is not read as a log."""
    return Path(name).suffix.lower() in _PROGRAMS


def open_regular(path: Path) -> BinaryIO:
    """Opens a regular file, and no link, pipe or device that took its place. Raises OSError."""
    file = os.fdopen(os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC), "rb")
    if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
        file.close()
        raise OSError(errno.EINVAL, "not a regular file", str(path))
    return file


def _expand(path: str) -> Iterator[str]:
    if path == STANDARD_INPUT:
        yield path
    elif Path(path).is_dir():
        yield from _files_below(Path(path))
    elif Path(path).exists():
        _check_readable(path)
        yield path
    else:
        raise NoSuchLogError(f"{path} does not exist\nname a file, a folder, or - for standard input")


def _check_readable(path: str) -> None:
    if Path(path).is_char_device() or Path(path).is_block_device():
        raise NoSuchLogError(f"{path} is a device, not a log\nname a file, a folder, or - for standard input")
    if not os.access(path, os.R_OK):
        raise NoSuchLogError(f"{path} cannot be read\ngive yourself the permission, or run as its owner")


def _files_below(folder: Path) -> Iterator[str]:
    """Regular files. Links are not followed: a folder may contain a link to itself or to a device."""
    for place, folders, names in os.walk(folder):
        folders[:] = sorted((each for each in folders if each not in _TREES_OF_TOOLS), key=_natural)
        for name in sorted(names, key=_natural):
            path = Path(place, name)
            if path.is_file() and not path.is_symlink():
                yield str(path)


def _size(name: str) -> int:
    """Bytes of a regular file; 0 for pipes and standard input, which only this process can read."""
    path = Path(name)
    return path.stat().st_size if name != STANDARD_INPUT and path.is_file() else 0


def _natural(name: str) -> tuple[tuple[int, str], ...]:
    """Sort key in which rank2 precedes rank10."""
    parts = re.split(r"(\d+)", name)
    return tuple((int(part) if part.isdecimal() and len(part) < 19 else 0, part) for part in parts)


def _open(name: str) -> BinaryIO:
    if name == STANDARD_INPUT:
        return io.BufferedReader(io.FileIO(sys.stdin.fileno(), closefd=False))
    if Path(name).is_fifo():
        sys.stderr.write(f"waiting for a writer of {name!r}\n")
    return Path(name).open("rb")
