"""The names of folders and files in a storage. Pure.

step-00000500/manifest.json   a checkpoint: files of torch's DCP, and the manifest that completes them
step-00000600.tmp/            one that is being written, or whose writer was killed
LATEST                        the name of the newest; a hint for people, and for listings that lag behind
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

MANIFEST = "manifest.json"
LATEST = "LATEST"
INCOMPLETE_SUFFIX = ".tmp"
"""Suffix of a folder whose content is no checkpoint yet, or no longer one."""

_FOLDER = re.compile(r"step-([0-9]{8,18})")


def folder_of(step: int) -> str:
    """Return the folder of a step: "step-00000500". Names sort as steps do up to a hundred million."""
    return f"step-{step:08d}"


def step_of(name: str) -> int | None:
    """Return the step of a folder; None if the name is not that of a finished checkpoint."""
    found = _FOLDER.fullmatch(name)
    return int(found[1]) if found and folder_of(int(found[1])) == name else None


def steps_in(names: Iterable[str]) -> list[int]:
    """Return steps of folders that may be checkpoints, newest first."""
    return sorted({step for name in names if (step := step_of(name)) is not None}, reverse=True)


def incomplete_in(names: Iterable[str]) -> list[str]:
    """Return names of folders that are incomplete."""
    return sorted(
        name
        for name in names
        if name.endswith(INCOMPLETE_SUFFIX) and step_of(name.removesuffix(INCOMPLETE_SUFFIX)) is not None
    )


def files_of_rank(sizes: Mapping[str, int], rank: int, ranks: int) -> list[str]:
    """Return the files that one of `ranks` reads: together every file once, balanced by bytes."""
    loads, mine = [0] * ranks, []
    for name in sorted(sizes, key=lambda each: (-sizes[each], each)):
        least = loads.index(min(loads))
        loads[least] += sizes[name] + 1
        if least == rank:
            mine.append(name)
    return mine
