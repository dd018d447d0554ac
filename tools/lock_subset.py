"""Prints the part of requirements.lock that some extras need, with hashes: what `--require-hashes` installs.

`python tools/lock_subset.py train,examples` prints the packages of these extras and of Windlass itself,
`python tools/lock_subset.py --only uv,hatchling` these packages and what they need.
"""

from __future__ import annotations

import re
import sys
import tomllib
from collections.abc import Iterable
from pathlib import Path

ROOT = Path(__file__).parent.parent
_ENTRY = re.compile(r"^([a-z0-9.-]+)==\S+(?:.*\n)(?:[ ]+.*\n)*", re.MULTILINE)
"""A package of the lock: its pin, its hashes, and comments that name the packages that need it."""
_NEEDED_BY = re.compile(r"^ +#(?: via)? +([a-z0-9.-]+)$", re.MULTILINE)


def lock_subset(roots: Iterable[str], lock: str) -> str:
    """Returns the entries of these packages and of everything that they need. Raises KeyError for unknown ones."""
    entries = {found[1]: found[0] for found in _ENTRY.finditer(lock)}
    needs: dict[str, set[str]] = {}
    for name, text in entries.items():
        for parent in _NEEDED_BY.findall(text):
            needs.setdefault(parent, set()).add(name)
    chosen: dict[str, str] = {}
    left = list(roots)
    while left:
        name = left.pop()
        if name not in chosen:
            chosen[name] = entries[name]
            left += needs.get(name, ())
    return "".join(text for name, text in entries.items() if name in chosen)


def packages_of(extras: Iterable[str]) -> list[str]:
    """Returns the packages that pyproject.toml names for Windlass itself and for these extras."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    lines = list(project["dependencies"])
    for extra in extras:
        lines += project["optional-dependencies"][extra]
    return [re.split(r"[^A-Za-z0-9._-]", line)[0].lower() for line in lines]


def main(words: list[str]) -> None:
    roots = words[1].split(",") if words[0] == "--only" else packages_of(words[0].split(","))
    print(lock_subset(roots, (ROOT / "requirements.lock").read_text()), end="")


if __name__ == "__main__":
    main(sys.argv[1:])
