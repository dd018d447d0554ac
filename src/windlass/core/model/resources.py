"""Amounts of a node's capacity and of a job's request, as integers.

Units: `cpu` in milli-cores, `memory` in bytes, every device (`gpu`, …) by count. Integers, because a comparison must
not depend on rounding; saturating, because a manifest can request any number.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import TypeAlias

Resources: TypeAlias = Mapping[str, int]

CPU = "cpu"
MEMORY = "memory"
GPU = "gpu"
GPU_MILLI = "gpu-milli"
"""A part of one GPU, in thousandths."""
WHOLE = 1000
"""Thousandths of one GPU."""
GPU_TYPE = "gpu-type"
"""The node label that names the model of its GPUs."""
GPU_KIND = "windlass.dev/gpu"
"""The node label that tells which kind of GPU its `gpu` counts, where a cluster has several kinds. A replica can use
only GPUs of the kind that it requests.
"""

PODS = "pods"
"""The number of replicas that a node takes, where it is limited: each replica requests one."""
_SUPPLIES = (CPU, MEMORY, "ephemeral-storage", PODS)
_EXCLUSIVE = ("hostport/", "apart/")
"""Prefixes of exclusive resources: a port of the node's address, the place of one anti-affine replica."""
_KINDS_OF_SUPPLY = ("hugepages-", *_EXCLUSIVE)

MAX_AMOUNT = 2**53
"""Maximum of any amount. 2**53 on each of 1,000 nodes still fits into int64, and JSON keeps it exact."""

_QUANTITY = re.compile(r"^\s*(\d+)(?:\.(\d+))?\s*([A-Za-z]*)\s*$")
_SUFFIX = {
    "": 1,
    **{letter: 1000**power for power, letter in enumerate("kMGTPE", start=1)},
    **{f"{letter}i": 1024**power for power, letter in enumerate("KMGTPE", start=1)},
}
_BINARY = tuple((1024**power, letter) for power, letter in reversed(list(enumerate("KMGTPE", start=1))))
"""Sorted, the largest first."""
_IN_BYTES = (MEMORY, "ephemeral-storage")
_READABLE_DIGITS = 4
_UNITS_PER_WHOLE = {CPU: 1000}


def is_device(resource: str) -> bool:
    """Tells whether a resource is counted in whole pieces, each for one replica alone, that only some nodes have."""
    return resource not in _SUPPLIES and not resource.startswith(_KINDS_OF_SUPPLY)


def is_shared_out(resource: str) -> bool:
    """Tells whether a resource counts towards fair share."""
    return resource != PODS and not is_exclusive(resource)


def is_exclusive(resource: str) -> bool:
    """Tells whether every node has exactly one of a resource, which one replica on the node holds alone."""
    return resource.startswith(_EXCLUSIVE)


class QuantityError(ValueError):
    """A quantity that cannot be parsed; its text gives valid examples."""


def parse_quantity(resource: str, text: str | float) -> int:
    """Parses a Kubernetes quantity ("500m", "1.5", "16Gi") into an integer in the resource's own unit.

    CPU rounds up to a milli-core and memory to a byte; devices must be whole.
    Source: apimachinery's resource.Quantity, without exponents and the sub-milli suffixes.
    Raises QuantityError.
    """
    plain = str(text).strip()
    unit = _UNITS_PER_WHOLE.get(resource, 1)
    if plain.endswith("m") and plain[:-1].isdigit():
        numerator, denominator = int(plain[:-1]) * unit, 1000
    else:
        numerator, denominator = _whole_and_fraction(resource, plain)
        numerator *= unit
    if is_device(resource) and numerator % denominator:
        raise QuantityError(f"{resource} is counted in whole devices, not {plain!r}")
    return min(-(-numerator // denominator), MAX_AMOUNT)


def _whole_and_fraction(resource: str, plain: str) -> tuple[int, int]:
    match = _QUANTITY.match(plain)
    if match is None or match[3] not in _SUFFIX or len(plain) > 40:
        example = {CPU: '"2" or "500m"', MEMORY: '"16Gi" or "512Mi"'}.get(resource, '"8"')
        raise QuantityError(f"{plain[:40]!r} is no amount of {resource}; write for example {example}")
    whole, fraction, suffix = match[1], match[2] or "", match[3]
    return int(whole + fraction) * _SUFFIX[suffix], 10 ** len(fraction)


def format_quantity(resource: str, amount: int) -> str:
    """Formats an amount in the shortest exact way: the inverse of `parse_quantity`."""
    if resource == CPU:
        return str(amount // 1000) if amount % 1000 == 0 else f"{amount}m"
    if _is_in_bytes(resource):
        for size, letter in _BINARY if amount else ():
            if amount % size == 0:
                return f"{amount // size}{letter}i"
    return str(amount)


def format_readable(resource: str, amount: int) -> str:
    """Formats an amount for people, in at most four digits: "1.5Gi", "1500Mi". Rounds down where none are exact."""
    exact = format_quantity(resource, amount)
    if not _is_in_bytes(resource) or amount < _BINARY[-1][0]:
        return exact
    size, letter = next(each for each in _BINARY if amount >= each[0])
    decimals: int = 10 ** max(_READABLE_DIGITS - len(str(amount // size)), 0)
    is_rounded = amount * decimals % size
    if is_rounded and len(exact.rstrip("KMGTPEi")) <= _READABLE_DIGITS:
        return exact
    return f"{amount * decimals // size / decimals:.15g}{letter}i"


def format_bytes(size: float) -> str:
    """Formats a size with a binary suffix, rounded to three digits: "512 B", "1.46 GiB"."""
    value, units = size, ["B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"]
    while len(units) > 1 and abs(value) >= (1024 if units[0] == "B" else 999.5):
        value /= 1024
        units.pop(0)
    return f"{value:.0f} B" if units[0] == "B" else f"{value:.3g} {units[0]}"


def _is_in_bytes(resource: str) -> bool:
    return resource in _IN_BYTES or resource.startswith("hugepages-")


def add(left: Resources, right: Resources) -> dict[str, int]:
    """Returns the sum by resource, saturating at MAX_AMOUNT."""
    names = left.keys() | right.keys()
    return {name: min(left.get(name, 0) + right.get(name, 0), MAX_AMOUNT) for name in sorted(names)}


def multiply(amounts: Resources, count: int) -> dict[str, int]:
    """Returns each amount multiplied by `count`, saturating at MAX_AMOUNT."""
    return {name: min(amount * count, MAX_AMOUNT) for name, amount in amounts.items()}
