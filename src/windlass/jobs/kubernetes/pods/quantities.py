"""Kubernetes quantities as the core's integers: all that an API server takes, exponents and nano-cores included.

Source: k8s.io/apimachinery, pkg/api/resource/quantity.go: a number, then a binary suffix, a decimal one or an exponent.
"""

from __future__ import annotations

import re
from fractions import Fraction
from functools import lru_cache
from typing import Any

from windlass.core.model.resources import CPU, MAX_AMOUNT, MEMORY

_QUANTITY = re.compile(r"\+?([0-9]+\.?[0-9]*|\.[0-9]+)([numkMGTPE]|[KMGTPE]i|[eE][-+]?[0-9]{1,2})?")
_SCALE = {
    "": Fraction(1),
    **{letter: Fraction(1000) ** power for power, letter in enumerate("kMGTPE", start=1)},
    **{f"{letter}i": Fraction(1024) ** power for power, letter in enumerate("KMGTPE", start=1)},
    **{letter: Fraction(1, 1000**power) for power, letter in enumerate("mun", start=1)},
}
_LONGEST = 40
_BYTES = (MEMORY, "ephemeral-storage", "storage")


def amount(resource: str, value: Any) -> int:
    """Returns an amount as the core's integer: CPU in milli-cores and bytes, both rounded up; everything else whole.

    At most MAX_AMOUNT. `resource` is the core's name or Kubernetes' own. Raises ValueError, whose text contains the
    fix.
    """
    return _amount(resource, str(value) if isinstance(value, str | int | float) and not isinstance(value, bool) else "")


@lru_cache(4096)  # a cluster's pods ask for the same few amounts
def _amount(resource: str, text: str) -> int:
    match = _QUANTITY.fullmatch(text) if len(text) <= _LONGEST else None
    if match is None:
        example = {CPU: '"2" or "500m"'}.get(resource, '"16Gi"' if _in_bytes(resource) else '"8"')
        raise ValueError(f"is no amount of {resource}; write for example {example}")
    suffix = match[2] or ""
    scale = Fraction(10) ** int(suffix[1:]) if suffix[:1] in ("e", "E") and suffix[1:2] not in ("", "i") else None
    exact = Fraction(match[1]) * (_SCALE[suffix] if scale is None else scale) * (1000 if resource == CPU else 1)
    if exact.denominator != 1 and resource != CPU and not _in_bytes(resource):
        raise ValueError(f"expects a whole number, not {text}; a part of a device is a resource of its own")
    return min(-(-exact.numerator // exact.denominator), MAX_AMOUNT)


def _in_bytes(resource: str) -> bool:
    return resource in _BYTES or resource.startswith("hugepages-")
