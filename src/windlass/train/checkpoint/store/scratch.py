"""The folder of this user for files on their way to an object store: mode 0700, in a folder that users may share."""

from __future__ import annotations

import contextlib
import os
import shutil
import stat
import tempfile
from pathlib import Path

SCRATCH = "WINDLASS_SCRATCH"
"""Variable with the folder for files before their upload; default is the system's temporary folder."""
_ATTEMPTS = 100
"""Tries to make a folder while other ranks remove the folder above it at the end of their saves."""


def scratch_base() -> Path:
    """Returns the folder in which the folders of all users are."""
    return Path(os.environ.get(SCRATCH) or tempfile.gettempdir())


def make_staging(base: Path, name: str) -> Path:
    """Creates the folder `name`, empty, in a folder that only this user can read or change. Raises OSError."""
    base.mkdir(parents=True, exist_ok=True)
    for _ in range(_ATTEMPTS):
        made = _own_folder(base) / name
        shutil.rmtree(made, ignore_errors=True)
        with contextlib.suppress(FileNotFoundError):
            made.mkdir(mode=0o700)
            return made
    raise FileNotFoundError(2, "folders in it are removed at once", str(base))


def remove_if_empty(folder: Path) -> None:
    """Removes the folder of this user after its last staging directory."""
    with contextlib.suppress(OSError):
        folder.rmdir()


def _own_folder(base: Path) -> Path:
    """Returns `windlass-UID`, or a folder with a random suffix if another user has taken that name.

    The suffixed folder of an earlier save is used again: only a folder that this user owns is, and never a link.
    """
    prefix = f"windlass-{os.getuid()}"
    plain = base / prefix
    with contextlib.suppress(FileExistsError):
        plain.mkdir(mode=0o700)
    if _is_closed(plain):
        return plain
    for other in sorted(base.glob(f"{prefix}-*")):
        if _is_closed(other):
            return other
    return Path(tempfile.mkdtemp(prefix=f"{prefix}-", dir=base))


def _is_closed(folder: Path) -> bool:
    """Whether a path is a folder of this user; its mode becomes 0700."""
    try:
        descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError:
        return False
    try:
        found = os.fstat(descriptor)
        if found.st_uid != os.getuid():
            return False
        if stat.S_IMODE(found.st_mode) != 0o700:
            os.fchmod(descriptor, 0o700)
        return True
    finally:
        os.close(descriptor)
