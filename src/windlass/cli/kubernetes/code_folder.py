"""Packs a folder of code to be shipped with a job, without the files that its ignore files exclude."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

from pathspec import GitIgnoreSpec

from windlass.cli.errors import UsageError
from windlass.jobs.kubernetes.pods.code_archive import CodeArchive, File, describe_largest_files, pack, size_fault

IGNORE_FILE = ".windlassignore"
_ALWAYS = (".git/", ".hg/", ".svn/", "__pycache__/", "*.pyc", ".DS_Store", IGNORE_FILE)
_MAX_BYTES, _MAX_FILES = 64 << 20, 20_000
"""Limits at which reading stops: the folder is certainly too large to be shipped."""
_FIXES = (
    f"list files that the job does not need in {IGNORE_FILE} (patterns as in .gitignore), "
    "or build an image with the code: --image IMAGE --ship no"
)


def pack_folder(folder: Path) -> CodeArchive:
    """Packs a folder without the files ignored by `.windlassignore` or, if the folder has none, by `.gitignore`.

    As in git, the `.gitignore` files of the folders above it apply too, up to the root of its repository. Raises
    UsageError if it is not a folder, or is too large to be shipped.
    """
    if not folder.is_dir():
        raise UsageError(f"--ship {folder}: there is no such folder")
    packed = pack(_files(folder.resolve()))
    if problem := size_fault(packed):
        raise UsageError(f"--ship {folder}: {problem}\n{_FIXES}")
    return packed


def _files(folder: Path) -> Iterator[File]:
    sizes: dict[str, int] = {}
    total = 0
    for path in sorted(_included_files(folder)):
        name = path.relative_to(folder).as_posix()
        try:
            content = path.read_bytes()
        except OSError as error:
            raise UsageError(f"--ship {folder}: {name}: {error.strerror}\n{_FIXES}") from None
        sizes[name] = len(content)
        total += len(content)
        if total > _MAX_BYTES or len(sizes) > _MAX_FILES:
            raise UsageError(
                f"--ship {folder}: it is too large to be shipped with a job; {describe_largest_files(sizes)}\n{_FIXES}"
            )
        yield File(name, content, executable=os.access(path, os.X_OK))


def _included_files(folder: Path) -> Iterator[Path]:
    """Yields every file that is not ignored. Links to files are followed, links to folders are skipped."""
    ignoring = IGNORE_FILE if (folder / IGNORE_FILE).is_file() else ".gitignore"
    inherited = _repository_specs(folder) if ignoring != IGNORE_FILE else []
    specs = {folder: [(folder, GitIgnoreSpec.from_lines(_ALWAYS)), *inherited]}
    for here, folders, files in os.walk(folder):
        place = Path(here)
        own = specs[place] + _specs_in(place, ignoring)
        folders[:] = [name for name in folders if not _is_skipped(place / name, own)]
        specs |= {place / name: own for name in folders}
        yield from (place / name for name in files if (place / name).is_file() and not _is_ignored(place / name, own))


def _repository_specs(folder: Path) -> list[tuple[Path, GitIgnoreSpec]]:
    """Returns the `.gitignore` files above a folder, the repository's root first.

    None outside a repository, and none if they ignore the folder itself, whose files are wanted nevertheless.
    """
    above = [folder, *folder.parents]
    root = next((number for number, each in enumerate(above) if (each / ".git").exists()), 0)
    specs = [spec for place in reversed(above[1 : root + 1]) for spec in _specs_in(place, ".gitignore")]
    return [] if _is_ignored(folder, specs, "/") else specs


def _specs_in(place: Path, ignoring: str) -> list[tuple[Path, GitIgnoreSpec]]:
    try:
        return [(place, GitIgnoreSpec.from_lines((place / ignoring).read_text(errors="replace").splitlines()))]
    except OSError:
        return []


def _is_skipped(place: Path, specs: list[tuple[Path, GitIgnoreSpec]]) -> bool:
    """Whether a folder is ignored, a link, or a virtual environment, which works on this machine only."""
    return place.is_symlink() or (place / "pyvenv.cfg").is_file() or _is_ignored(place, specs, "/")


def _is_ignored(path: Path, specs: list[tuple[Path, GitIgnoreSpec]], slash: str = "") -> bool:
    """Whether the last matching pattern ignores a path, as in git: ignore files in deeper folders take precedence."""
    ignored = False
    for place, spec in specs:
        include = spec.check_file(path.relative_to(place).as_posix() + slash).include
        ignored = ignored if include is None else include
    return ignored
