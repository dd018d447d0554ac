"""Amounts of what a node has and a job wants, as integers.

Units: `cpu` in milli-cores, `memory` in bytes, every device (`gpu`, …) by count. Integers, because a
comparison that decides must not depend on rounding; saturating, because a manifest may ask for anything.
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
GPU_TYPE = "gpu-type"
"""The node label that names the model of its GPUs."""
GPU_KIND = "windlass.dev/gpu"
"""The node label that tells whose GPUs its `gpu` are, where a world has several kinds; nobody can do with another."""

PODS = "pods"
"""How many replicas a node takes at all, where there is such a limit: each asks for one."""
_SUPPLIES = (CPU, MEMORY, "ephemeral-storage", PODS)
_EXCLUSIVE = ("hostport/", "apart/")
"""Begin the names of exclusive resources: a port of the node's address, the place of one anti-affine replica."""
_KINDS_OF_SUPPLY = ("hugepages-", *_EXCLUSIVE)

MAX_AMOUNT = 2**53
"""The largest amount kept of anything. 2**53 on each of 1,000 nodes still fits into int64, and JSON keeps it exact."""

_QUANTITY = re.compile(r"^\s*(\d+)(?:\.(\d+))?\s*([A-Za-z]*)\s*$")
_SUFFIX = {
    "": 1,
    **{letter: 1000**power for power, letter in enumerate("kMGTPE", start=1)},
    **{f"{letter}i": 1024**power for power, letter in enumerate("KMGTPE", start=1)},
}
_BINARY = tuple((1024**power, letter) for power, letter in reversed(list(enumerate("KMGTPE", start=1))))
"""The largest first."""
_IN_BYTES = (MEMORY, "ephemeral-storage")
_UNITS_PER_WHOLE = {CPU: 1000}


def is_device(resource: str) -> bool:
    """Whether it is counted in whole pieces, of which each is one replica's alone, and few nodes have any."""
    return resource not in _SUPPLIES and not resource.startswith(_KINDS_OF_SUPPLY)


def is_shared_out(resource: str) -> bool:
    """Whether whoever holds of it has a greater share of the cluster."""
    return resource != PODS and not is_exclusive(resource)


def is_exclusive(resource: str) -> bool:
    """Whether every node has exactly one of it, which one replica on the node holds alone."""
    return resource.startswith(_EXCLUSIVE)


class QuantityError(ValueError):
    """A quantity that cannot be read; its text names what would be valid."""


def parse_quantity(resource: str, text: str | float) -> int:
    """Read a Kubernetes quantity ("500m", "1.5", "16Gi") as an integer in the resource's own unit.

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
    """The shortest exact way to write an amount: inverse of `parse_quantity`."""
    if resource == CPU:
        return str(amount // 1000) if amount % 1000 == 0 else f"{amount}m"
    if resource in _IN_BYTES or resource.startswith("hugepages-"):
        for size, letter in _BINARY if amount else ():
            if amount % size == 0:
                return f"{amount // size}{letter}i"
    return str(amount)


def add(left: Resources, right: Resources) -> dict[str, int]:
    """Sum by resource, saturating at MAX_AMOUNT."""
    names = left.keys() | right.keys()
    return {name: min(left.get(name, 0) + right.get(name, 0), MAX_AMOUNT) for name in sorted(names)}


def times(amounts: Resources, count: int) -> dict[str, int]:
    """Each amount `count` times over, saturating at MAX_AMOUNT."""
    return {name: min(amount * count, MAX_AMOUNT) for name, amount in amounts.items()}
