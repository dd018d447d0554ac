"""Detects PyPI's unrelated package `windlass` in the environment of this one.

Both have modules below `windlass`. The later installation overwrites `windlass/__init__.py` and other files of the
earlier one, and uninstalling one of them removes files of both. The check runs at each start.
"""

from __future__ import annotations

import json
import os
import shlex
from dataclasses import dataclass
from pathlib import Path

import windlass

_FIX = "python -m pip uninstall windlass windlass-train; python -m pip install"
_SOURCE = "windlass_train-*.dist-info/direct_url.json"
"""File in which an installer notes a wheel or folder that it was given by its path."""


@dataclass(frozen=True, slots=True)
class PackageClash:
    """The other package is installed here. `is_overwritten`: after this one, so that modules of this one are lost."""

    text: str
    is_overwritten: bool


def find_clash(site: Path | None = None) -> PackageClash | None:
    """Returns the clash in the folder of packages `site`, by default the one of this package."""
    overwritten = not hasattr(windlass, "_MODULES")
    folder = site or Path(__file__).parents[2]
    other = _find_other(folder)
    if other is None and not overwritten:
        return None
    name = other or "another package named windlass"
    outcome = "has overwritten modules of" if overwritten else "shares files with"
    return PackageClash(
        f"{name} {outcome} windlass-train; keep one per environment\n{_FIX} {_source(folder)}", overwritten
    )


def _source(site: Path) -> str:
    """The wheel or folder from which this package was installed; without a record of one, its name on an index."""
    try:
        [noted] = site.glob(_SOURCE)
        url = str(json.loads(noted.read_text(encoding="utf-8"))["url"])
    except (OSError, ValueError, KeyError, TypeError):
        return "windlass-train"
    return shlex.quote(url) if url.isprintable() else "windlass-train"


def _find_other(site: Path) -> str | None:
    """Returns the name and version of the other distribution by its folder of metadata, "windlass-0.1.1.dist-info"."""
    try:
        with os.scandir(site) as entries:
            names = [each.name for each in entries if each.name.startswith("windlass-")]
    except OSError:  # a package in a zip file has no such folder
        return None
    found = [name.removesuffix(".dist-info") for name in names if name.endswith(".dist-info")]
    return found[0].replace("-", " ") if found else None
