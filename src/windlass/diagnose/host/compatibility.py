"""Tables of versions that work together: CUDA and driver, CUDA and compute capability. As of November 2026."""

from __future__ import annotations

import re
from types import MappingProxyType

DRIVER_SOURCE = "https://docs.nvidia.com/deploy/cuda-compatibility/minor-version-compatibility.html"
CAPABILITY_SOURCE = "https://docs.nvidia.com/cuda/cuda-toolkit-release-notes/index.html"

LEAST_DRIVER = MappingProxyType({11: (450, 80, 2), 12: (525, 60, 13), 13: (580, 65, 6)})
"""Major version of CUDA → oldest driver on Linux that runs every minor version of it."""

FIRST_CUDA = MappingProxyType(
    {
        (7, 0): (9, 0),
        (7, 5): (10, 0),
        (8, 0): (11, 0),
        (8, 6): (11, 1),
        (8, 9): (11, 8),
        (9, 0): (11, 8),
        (10, 0): (12, 8),
        (10, 3): (12, 9),
        (12, 0): (12, 8),
        (12, 1): (12, 9),
    }
)
"""Compute capability → first CUDA that compiles for it. PTX of an older one still runs if a program brings it."""

LAST_CUDA = MappingProxyType({(5, 0): 12, (5, 2): 12, (6, 0): 12, (6, 1): 12, (7, 0): 12})
"""Compute capability → last major version of CUDA that has it."""


def parse_version(text: str) -> tuple[int, ...]:
    """Returns the leading numbers of a version: "535.161.08" is (535, 161, 8)."""
    found = re.match(r"\d+(\.\d+)*", text.strip())
    return tuple(int(part) for part in found[0].split(".")) if found else ()


def least_driver(cuda: str) -> tuple[int, ...]:
    """Returns the oldest driver that runs programs of a CUDA version, () if the table does not know it."""
    return LEAST_DRIVER.get((parse_version(cuda) or (0,))[0], ())


def show_version(version: tuple[int, ...]) -> str:
    """Returns a version as drivers write it: (525, 60, 13) is "525.60.13"."""
    return ".".join(f"{part:02}" if place == 2 else str(part) for place, part in enumerate(version))


def supports_capability(cuda: str, capability: tuple[int, int]) -> bool | None:
    """Returns whether a CUDA version compiles for a compute capability; None if the tables do not know."""
    version, first, last = parse_version(cuda), FIRST_CUDA.get(capability), LAST_CUDA.get(capability)
    if not version or not (first or last):
        return None
    return version >= (first or (0,)) and version[0] <= (last or version[0])
