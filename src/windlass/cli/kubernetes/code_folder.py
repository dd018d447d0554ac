"""Packing a folder: which of its files go along with a job, by its ignore files."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

from pathspec import GitIgnoreSpec

from windlass.cli.errors import UsageError
from windlass.jobs.kubernetes.pods.code_archive import File, Packed, largest, pack, too_large

IGNORE_FILE = ".windlassignore"
_ALWAYS = (".git/", ".hg/", ".svn/", "__pycache__/", "*.pyc", ".DS_Store", IGNORE_FILE)
_MOST_RAW, _MOST_FILES = 64 << 20, 20_000
"""Bytes and files at which it is clear that the wrong folder is packed."""
_FIXES = (
    f"list what the job does not need in {IGNORE_FILE} (patterns as in .gitignore), "
    "or build an image that holds the code: --image IMAGE --ship no"
)


def pack_folder(folder: Path) -> Packed:
    """The folder, without what it ignores: by `.windlassignore` files, or where the folder has none by `.gitignore`.

    Raises UsageError for a folder that is none, or is too large to go along.
    """
    if not folder.is_dir():
        raise UsageError(f"--ship {folder}: there is no such folder")
    found = pack(_files(folder))
    if said := too_large(found):
        raise UsageError(f"--ship {folder}: {said}\n{_FIXES}")
    return found


def _files(folder: Path) -> Iterator[File]:
    sizes: dict[str, int] = {}
    whole = 0
    for path in sorted(_wanted(folder)):
        name = path.relative_to(folder).as_posix()
        try:
            content = path.read_bytes()
        except OSError as error:
            raise UsageError(f"--ship {folder}: {name}: {error.strerror}\n{_FIXES}") from None
        sizes[name] = len(content)
        whole += len(content)
        if whole > _MOST_RAW or len(sizes) > _MOST_FILES:
            raise UsageError(f"--ship {folder}: it is too large to go along with a job; {largest(sizes)}\n{_FIXES}")
        yield File(name, content, executable=os.access(path, os.X_OK))


def _wanted(folder: Path) -> Iterator[Path]:
    """Every file but what is ignored. Links to files are followed, links to folders are left out."""
    ignoring = IGNORE_FILE if (folder / IGNORE_FILE).is_file() else ".gitignore"
    specs = {folder: [(folder, GitIgnoreSpec.from_lines(_ALWAYS))]}
    for here, folders, files in os.walk(folder):
        place = Path(here)
        own = specs[place] + _own(place, ignoring)
        folders[:] = [name for name in folders if not _left_out(place / name, own)]
        specs |= {place / name: own for name in folders}
        yield from (place / name for name in files if (place / name).is_file() and not _is_ignored(place / name, own))


def _own(place: Path, ignoring: str) -> list[tuple[Path, GitIgnoreSpec]]:
    try:
        return [(place, GitIgnoreSpec.from_lines((place / ignoring).read_text(errors="replace").splitlines()))]
    except OSError:
        return []


def _left_out(place: Path, specs: list[tuple[Path, GitIgnoreSpec]]) -> bool:
    """Folders that are ignored, linked, or a virtual environment: that is of this machine alone."""
    return place.is_symlink() or (place / "pyvenv.cfg").is_file() or _is_ignored(place, specs, "/")


def _is_ignored(path: Path, specs: list[tuple[Path, GitIgnoreSpec]], slash: str = "") -> bool:
    """By the last pattern that speaks of it, as git has it: the deeper file wins."""
    verdict = False
    for place, spec in specs:
        said = spec.check_file(path.relative_to(place).as_posix() + slash).include
        verdict = verdict if said is None else said
    return verdict
