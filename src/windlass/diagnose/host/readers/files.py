"""Reads of small files that may be missing, unreadable or not text: the answer is then empty."""

from __future__ import annotations

from pathlib import Path

MAX_BYTES = 1 << 20
"""Largest part of a file that is read; files of /proc and /sys are far smaller."""


def read_text(path: Path) -> str:
    """Returns the text of a file without surrounding white space, "" if it cannot be read."""
    return read_bytes(path).decode("utf-8", "replace").strip()


def read_bytes(path: Path) -> bytes:
    """Returns the start of a file, b"" if it cannot be read."""
    try:
        with path.open("rb") as file:
            return file.read(MAX_BYTES)
    except (OSError, ValueError):
        return b""


def read_number(path: Path, base: int = 10) -> int | None:
    """Returns the number in a file; None if there is none."""
    try:
        return int(read_text(path), base)
    except ValueError:
        return None


def children(folder: Path) -> list[Path]:
    """Returns the entries of a folder by name, none if it cannot be listed."""
    try:
        return sorted(folder.iterdir())
    except OSError:
        return []


def is_machine(root: Path) -> bool:
    """Returns whether the file systems of a machine are mounted below a folder."""
    return (root / "proc").is_dir() or (root / "sys").is_dir()


def link_name(path: Path) -> str:
    """Returns the last part of a link's target, or of the name in a plain file; "" if there is neither."""
    try:
        return path.readlink().name
    except OSError:
        return read_text(path)
