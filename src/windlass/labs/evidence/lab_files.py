"""Files that programs left in a learner's folder: regular ones of a limited size, reached without links."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from windlass.backends.local.regular_files import open_regular
from windlass.labs.evidence.findings import EvidenceError

T = TypeVar("T")
MAX_BYTES = 4 << 20
_WRITE_AGAIN = "remove it and run its program again"


def read_file(folder: Path, name: str) -> str | None:
    """Returns the text of a file by its path below the folder; None if there is none. Raises EvidenceError."""
    path = _place_of(folder, name)
    try:
        with os.fdopen(open_regular(path), "rb") as file:
            data = file.read(MAX_BYTES + 1)
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        raise EvidenceError(
            f"{name} cannot be read: {error.strerror}", f"remove it and write it again as the text describes: rm {name}"
        ) from None
    if len(data) > MAX_BYTES:
        raise EvidenceError(f"{name} has more than {MAX_BYTES >> 20} MiB", f"remove it and write it again: rm {name}")
    return data.decode(errors="replace")


def read_json(folder: Path, name: str) -> Any:
    """Returns the content of a JSON file; None if there is none. Raises EvidenceError."""
    text = read_file(folder, name)
    if text is None:
        return None
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        raise EvidenceError(f"{name} is no JSON: it was changed, or its program was stopped", _WRITE_AGAIN) from None


def read_record(folder: Path, name: str, kind: type[T]) -> T | None:
    """Returns the content of a JSON file as a record, checked field by field. Raises EvidenceError."""
    content = read_json(folder, name)
    if content is None:
        return None
    try:
        return msgspec.convert(content, kind)
    except msgspec.ValidationError as error:
        raise EvidenceError(f"{name} is not what its program writes: {error}", _WRITE_AGAIN) from None


def file_names(folder: Path, pattern: str) -> list[str]:
    """Returns the names of files that match a pattern such as `runs/*.json`, without those behind links."""
    found = (path.relative_to(folder) for path in folder.glob(pattern))
    return sorted(str(name) for name in found if ".." not in name.parts and _is_plain(folder, name))


def _place_of(folder: Path, name: str) -> Path:
    """Returns the path of a name below the folder. Raises EvidenceError if a link leads out of it."""
    relative = Path(name)
    if relative.is_absolute() or ".." in relative.parts:
        raise ValueError(f"{name!r} is not below the lab's folder")
    if not _is_plain(folder, relative.parent):
        raise EvidenceError(f"{relative.parent} is a link", f"remove it, and make it a folder: rm {relative.parent}")
    return folder / relative


def _is_plain(folder: Path, name: Path) -> bool:
    """Whether no part of a relative path is a link."""
    return not any((folder / part).is_symlink() for part in (name, *name.parents) if part != Path())
