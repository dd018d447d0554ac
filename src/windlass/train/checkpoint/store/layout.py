"""The names of folders and files in a place. Pure.

step-00000500/manifest.json   a checkpoint: files of torch's DCP, and the manifest that makes them one
step-00000600.tmp/            one that is being written, or was when its writer died
LATEST                        the name of the newest; a hint, for people and for listings that lag behind
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

MANIFEST = "manifest.json"
LATEST = "LATEST"
TORN = ".tmp"
"""The end of a folder's name while what is in it is no checkpoint yet, or no longer one."""

_FOLDER = re.compile(r"step-([0-9]{8,18})")


def folder_of(step: int) -> str:
    """ "step-00000500": names sort as steps do up to a hundred million."""
    return f"step-{step:08d}"


def step_of(name: str) -> int | None:
    """The step of a folder; None if this is no name of a finished checkpoint."""
    found = _FOLDER.fullmatch(name)
    return int(found[1]) if found and folder_of(int(found[1])) == name else None


def steps_in(names: Iterable[str]) -> list[int]:
    """Steps of folders that may be checkpoints, newest first."""
    return sorted({step for name in names if (step := step_of(name)) is not None}, reverse=True)


def torn_in(names: Iterable[str]) -> list[str]:
    """Folders that are no checkpoints, by their name."""
    return sorted(name for name in names if name.endswith(TORN) and step_of(name.removesuffix(TORN)) is not None)


def share_of(sizes: Mapping[str, int], rank: int, ranks: int) -> list[str]:
    """The files that one of `ranks` looks at: all together every file once, and nobody much more than others."""
    loads, mine = [0] * ranks, []
    for name in sorted(sizes, key=lambda each: (-sizes[each], each)):
        least = loads.index(min(loads))
        loads[least] += sizes[name] + 1
        if least == rank:
            mine.append(name)
    return mine
