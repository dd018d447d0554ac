"""Packs a folder of code to be shipped with a job, without the files that its ignore files exclude."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from fnmatch import fnmatchcase
from pathlib import Path
from typing import NamedTuple

from pathspec import GitIgnoreSpec

from windlass.cli.errors import UsageError
from windlass.cli.kubernetes.secret_files import is_secret_name
from windlass.cli.terminal.formatting import shorten
from windlass.jobs.kubernetes.pods.code_archive import CodeArchive, File, describe_largest_files, pack, size_fault

IGNORE_FILE = ".windlassignore"
_ALWAYS = (".git/", ".hg/", ".svn/", "__pycache__/", "*.pyc", ".DS_Store", IGNORE_FILE)
_MAX_BYTES, _MAX_FILES = 64 << 20, 20_000
"""Limits at which reading stops: the folder is certainly too large to be shipped."""
_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_FILE = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_FIXES = (
    f"list files that the job does not need in {IGNORE_FILE} (patterns as in .gitignore), "
    "or build an image with the code: --image IMAGE --ship no"
)


class _IgnoreFile(NamedTuple):
    """The patterns of one ignore file, which hold below its folder. `named`: file names in patterns with `!`."""

    folder: Path
    spec: GitIgnoreSpec
    named: tuple[str, ...] = ()


def pack_folder(folder: Path) -> CodeArchive:
    """Packs a folder without the files ignored by `.windlassignore` or, if the folder has none, by `.gitignore`.

    As in git, the `.gitignore` files of the folders above it apply too, up to the root of its repository. Raises
    UsageError if it is not a folder, is too large to be shipped, contains a link to a folder or to a file outside of
    it, or files that look like secrets and that no pattern with `!` names.
    """
    if not folder.is_dir():
        raise UsageError(f"--ship {folder}: there is no such folder")
    packed = pack(_files(folder.resolve()))
    if problem := size_fault(packed):
        raise UsageError(f"--ship {folder}: {problem}\n{_FIXES}")
    return packed


def _files(folder: Path) -> Iterator[File]:
    sizes: dict[str, int] = {}
    secrets: list[str] = []
    total = 0
    for path, is_named in sorted(_included_files(folder)):
        name = path.relative_to(folder).as_posix()
        try:
            _check_link(folder, path)
            target = _target(folder, path)
            found = _read(folder, target)
        except OSError as error:
            raise UsageError(f"--ship {folder}: {name}: {error.strerror}\n{_FIXES}") from None
        if found is None:
            continue
        content, executable = found
        if not is_named and (is_secret_name(name) or is_secret_name(target.as_posix())):
            secrets.append(name)
        sizes[name] = len(content)
        total += len(content)
        if total > _MAX_BYTES or len(sizes) > _MAX_FILES:
            raise UsageError(
                f"--ship {folder}: it is too large to be shipped with a job; {describe_largest_files(sizes)}\n{_FIXES}"
            )
        yield File(name, content, executable)
    if secrets:
        raise _secrets_error(folder, secrets)


def _secrets_error(folder: Path, secrets: list[str]) -> UsageError:
    return UsageError(
        f"--ship {folder}: by its name, this may be a secret: {shorten(secrets)}\n"
        f"list it in {_ignore_file(folder)} to leave it out, or as !{secrets[0]} to ship it: every user who may read "
        "ConfigMaps of the namespace can read shipped code"
    )


def _target(folder: Path, path: Path) -> Path:
    """Returns the path of a file relative to the folder, links resolved. Raises UsageError if it is outside."""
    target = Path(os.path.realpath(path))
    if not target.is_relative_to(folder):
        name = path.relative_to(folder).as_posix()
        raise UsageError(
            f"--ship {folder}: {name} is a link to {target}, outside of the folder\n"
            f"copy the file into the folder, or list the link in {_ignore_file(folder)}"
        )
    return target.relative_to(folder)


def _check_link(folder: Path, path: Path) -> None:
    """Raises UsageError for a link to a folder, which the job would miss."""
    if path.is_symlink() and path.is_dir():
        raise UsageError(
            f"--ship {folder}: {path.relative_to(folder).as_posix()} is a link to a folder, which is not shipped\n"
            f"put the files in its place, or list the link in {_ignore_file(folder)}"
        )


def _read(folder: Path, target: Path) -> tuple[bytes, bool] | None:
    """Returns the content of a regular file, and whether it is executable; None for other files and dead links.

    Every part of the path is opened without following links: a link that appears after the check is an error.
    """
    try:
        descriptor = _open_beneath(folder, target)
    except FileNotFoundError:
        return None
    with os.fdopen(descriptor, "rb") as file:
        mode = os.fstat(descriptor).st_mode
        return (file.read(_MAX_BYTES + 1), bool(mode & stat.S_IXUSR)) if stat.S_ISREG(mode) else None


def _open_beneath(folder: Path, target: Path) -> int:
    place = os.open(folder, _FOLDER)
    try:
        for name in target.parts[:-1]:
            deeper = os.open(name, _FOLDER, dir_fd=place)
            os.close(place)
            place = deeper
        return os.open(target.name, _FILE, dir_fd=place)
    finally:
        os.close(place)


def _ignore_file(folder: Path) -> str:
    return IGNORE_FILE if (folder / IGNORE_FILE).is_file() else ".gitignore"


def _included_files(folder: Path) -> Iterator[tuple[Path, bool]]:
    """Yields every file and link that is not ignored, and whether a pattern with `!` names it."""
    ignoring = _ignore_file(folder)
    inherited = _repository_specs(folder) if ignoring != IGNORE_FILE else []
    specs = {folder: [_IgnoreFile(folder, GitIgnoreSpec.from_lines(_ALWAYS)), *inherited]}
    for here, folders, files in os.walk(folder):
        place = Path(here)
        own = specs[place] + _specs_in(place, ignoring)
        files += [name for name in folders if (place / name).is_symlink()]
        folders[:] = [name for name in folders if not _is_skipped(place / name, own)]
        specs |= {place / name: own for name in folders}
        for path in (place / name for name in files):
            if not (ignored := _last_match(path, own)):
                is_named = any(fnmatchcase(path.name, name) for each in own for name in each.named)
                yield path, ignored is False and is_named


def _repository_specs(folder: Path) -> list[_IgnoreFile]:
    """Returns the `.gitignore` files above a folder, the repository's root first.

    None outside a repository, and none if they ignore the folder itself, whose files are wanted nevertheless.
    """
    above = [folder, *folder.parents]
    root = next((number for number, each in enumerate(above) if (each / ".git").exists()), 0)
    specs = [spec for place in reversed(above[1 : root + 1]) for spec in _specs_in(place, ".gitignore")]
    return [] if _last_match(folder, specs, "/") else specs


def _specs_in(place: Path, ignoring: str) -> list[_IgnoreFile]:
    if not (place / ignoring).is_file():
        return []
    try:
        lines = (place / ignoring).read_text(errors="replace").splitlines()
    except OSError:
        return []
    names = (line.rstrip("/ ").rpartition("/")[2] or line for line in lines if line.startswith("!"))
    named = tuple(name.lstrip("!") for name in names if name.strip("!*?.[]"))
    return [_IgnoreFile(place, GitIgnoreSpec.from_lines(lines), named)]


def _is_skipped(place: Path, specs: list[_IgnoreFile]) -> bool:
    """Whether a folder is ignored, a link, or a virtual environment, which works on this machine only."""
    return place.is_symlink() or (place / "pyvenv.cfg").is_file() or bool(_last_match(place, specs, "/"))


def _last_match(path: Path, specs: list[_IgnoreFile], slash: str = "") -> bool | None:
    """Returns whether the last pattern that matches a path ignores it; None if none matches.

    As in git, ignore files in deeper folders take precedence.
    """
    ignored = None
    for each in specs:
        include = each.spec.check_file(path.relative_to(each.folder).as_posix() + slash).include
        ignored = ignored if include is None else include
    return ignored
