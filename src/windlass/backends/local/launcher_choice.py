"""Chooses the launcher of a job that names none: an agent if its scripts import torch.

An agent imports torch once for all ranks of a replica. A script without torch must not pay for that, so the imports of
the script and of the modules beside it decide.
"""

from __future__ import annotations

import ast
import shutil
from collections.abc import Iterator
from pathlib import Path

from windlass.core.model.job import Job, Launcher, Role
from windlass.launch.agent import Entry, entry_of

_TORCH = frozenset(
    {"torch", "torchvision", "torchaudio", "lightning", "pytorch_lightning", "accelerate", "transformers", "deepspeed"}
)
"""Modules whose import implies an import of torch."""
_OURS = "windlass.train"
_MAX_FILES = 200
_LARGEST = 1 << 20


def choose_launcher(job: Job, path: str) -> Launcher:
    """Returns the launcher of a job that would be PLAIN, on this machine. `path`: PATH of its ranks.

    AGENT if every role is a Python script that imports torch, and the gang has several ranks or sends heartbeats.
    """
    found = [_imports_of(role, job.workdir, path) for role in job.roles]
    if not all(names is not None and (_OURS in names or names & _TORCH) for names in found):
        return Launcher.PLAIN
    alone = job.world_size == 1 and not any(names and _OURS in names for names in found)
    return Launcher.PLAIN if alone else Launcher.AGENT


def _imports_of(role: Role, workdir: str, path: str) -> frozenset[str] | None:
    """Returns the imports of a role's script; None if the command is no Python script that can be found."""
    entry = entry_of(role.command)
    if entry is None:
        return None
    python = str(Path(workdir, entry.python)) if "/" in entry.python else entry.python
    found = _file_of(entry, Path(workdir)) if shutil.which(python, path=path) else None
    return None if found is None else imported_modules(*found)


def _file_of(entry: Entry, workdir: Path) -> tuple[Path, Path] | None:
    """Returns the source file, and the first folder on its import path."""
    if not entry.module:
        script = workdir / entry.words[0]
        return (script, script.parent) if script.is_file() else None
    parts = workdir.joinpath(*entry.words[0].split("."))
    module = next((file for file in (parts.with_suffix(".py"), parts / "__main__.py") if file.is_file()), None)
    return None if module is None else (module, workdir)


def imported_modules(script: Path, root: Path) -> frozenset[str]:
    """Returns the modules imported by a script and by modules below `root` that it imports. Executes nothing."""
    names: set[str] = set()
    todo, seen = [script], {script}
    while todo and len(seen) < _MAX_FILES:
        file = todo.pop()
        own = set(_imports(file, root))
        names |= own
        beside = {found for name in own for found in _beside(name, root)} - seen
        seen |= beside
        todo += sorted(beside)
    return frozenset(names | {name.partition(".")[0] for name in names})


def _imports(file: Path, root: Path) -> Iterator[str]:
    """Yields full names, for `from a import b` both `a` and `a.b`; none if the file is not valid Python."""
    try:
        if file.stat().st_size > _LARGEST:
            return
        tree = ast.parse(file.read_bytes())
    except (OSError, SyntaxError, ValueError):
        return
    package = file.parent.relative_to(root).parts if file.is_relative_to(root) else ()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            above = package[: len(package) - node.level + 1] if node.level else ()
            base = ".".join((*above, *([node.module] if node.module else [])))
            yield base
            yield from (f"{base}.{alias.name}" for alias in node.names)


def _beside(name: str, root: Path) -> Iterator[Path]:
    """Yields the files of a module below `root`: its own, and those of its parent packages."""
    folder = root
    for part in filter(None, name.split(".")):
        yield from (file for file in (folder / f"{part}.py", folder / part / "__init__.py") if file.is_file())
        folder /= part
