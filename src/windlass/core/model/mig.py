"""MIG (Multi-Instance GPU): possible places of each profile in a GPU's memory slices, and the choice of the next one.

An instance occupies adjacent slices and begins at one of its profile's start slices. So it can fit only in certain
places, whatever the sum of free slices: two free slices that are not adjacent hold no 2g instance. A bit mask states
the free slices of a GPU. Source: NVIDIA MIG User Guide, "Supported MIG profiles", and the output of
`nvidia-smi mig -lgipp`; profiles of the H100 NVL, H20, GH200, B200 and B300: the GPU Operator's
`default-mig-parted-config`. The variants with media extensions (+me) and graphics (+gfx) are left out: a GPU has one of
each, in the places of the plain ones.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from types import MappingProxyType
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

PREFIX = "mig-"
"""Prefix of the resource names of profiles: prefix and profile name together name instances of that profile."""
MASKS = 256
"""Number of bit masks of a GPU's slices; no GPU has more than eight slices."""
_PLACES = 8
"""An instance's number is its GPU's number times this, plus its first slice."""


class Profile(NamedTuple):
    """A profile: `slices` adjacent slices that begin at one of `starts`. No two of its places overlap."""

    name: str
    slices: int
    starts: tuple[int, ...]

    def bits(self, start: int) -> int:
        """Returns the slices of an instance that begins at `start`, as a mask."""
        return ((1 << self.slices) - 1) << start


@dataclass(frozen=True, eq=False)
class Geometry:
    """The profiles of one GPU model, largest first."""

    model: str
    slices: int
    profiles: tuple[Profile, ...]

    @property
    def whole(self) -> int:
        """Mask of a GPU that is entirely free."""
        return (1 << self.slices) - 1

    @cached_property
    def instances_left(self) -> NDArray[np.int64]:
        """int64[256, P]: how many more instances of each profile fit, by the mask of free slices; exact."""
        import numpy as np  # noqa: PLC0415 - readers of manifests need the names of profiles alone

        return np.array(
            [
                [sum(mask & p.bits(start) == p.bits(start) for start in p.starts) for p in self.profiles]
                for mask in range(MASKS)
            ],
            dtype=np.int64,
        )

    def profile(self, resource: str) -> Profile | None:
        """Returns the profile that a resource names, if this model has it."""
        return next((p for p in self.profiles if PREFIX + p.name == resource), None)

    def sort_key(self, mask: int) -> int:
        """Returns a sort key of masks: the number of largest profiles that still fit, then of the next largest, etc."""
        digits = reversed([int(count) for count in self.instances_left[mask]])
        return sum(count * 8**place for place, count in enumerate(digits))

    def best_start(self, profile: Profile, mask: int) -> int | None:
        """Returns the start after which most large instances still fit, the first of equals; None: no place is free."""
        able = [start for start in profile.starts if mask & profile.bits(start) == profile.bits(start)]
        return max(able, key=lambda start: (self.sort_key(mask - profile.bits(start)), -start), default=None)


def instance_number(gpu: int, start: int) -> int:
    """Returns the number by which a placement names an instance."""
    return gpu * _PLACES + start


def gpu_and_start(number: int) -> tuple[int, int]:
    """Returns an instance's GPU and first slice: the inverse of `instance_number`."""
    return divmod(number, _PLACES)


def _eight(model: str, *names: str) -> Geometry:
    """Returns the geometry of a GPU with eight memory and seven compute slices: equal for all since the A100."""
    seven, four, three, two, wide, one = names
    places = (
        Profile(seven, 8, (0,)),
        Profile(four, 4, (0,)),
        Profile(three, 4, (0, 4)),
        Profile(two, 2, (0, 2, 4)),
        Profile(wide, 2, (0, 2, 4, 6)),
        Profile(one, 1, (0, 1, 2, 3, 4, 5, 6)),
    )
    return Geometry(model, 8, places)


_OF_80 = ("7g.80gb", "4g.40gb", "3g.40gb", "2g.20gb", "1g.20gb", "1g.10gb")

GEOMETRIES: Mapping[str, Geometry] = MappingProxyType(
    {
        geometry.model: geometry
        for geometry in (
            _eight("A100-40GB", "7g.40gb", "4g.20gb", "3g.20gb", "2g.10gb", "1g.10gb", "1g.5gb"),
            _eight("A100-80GB", *_OF_80),
            _eight("H100-80GB", *_OF_80),
            _eight("H100-94GB", "7g.94gb", "4g.47gb", "3g.47gb", "2g.24gb", "1g.24gb", "1g.12gb"),
            _eight("H20-96GB", "7g.96gb", "4g.48gb", "3g.48gb", "2g.24gb", "1g.24gb", "1g.12gb"),
            _eight("GH200-96GB", "7g.96gb", "4g.48gb", "3g.48gb", "2g.24gb", "1g.24gb", "1g.12gb"),
            _eight("H200-141GB", "7g.141gb", "4g.71gb", "3g.71gb", "2g.35gb", "1g.35gb", "1g.18gb"),
            _eight("B200-180GB", "7g.180gb", "4g.90gb", "3g.90gb", "2g.45gb", "1g.45gb", "1g.23gb"),
            _eight("B300-269GB", "7g.269gb", "4g.135gb", "3g.135gb", "2g.67gb", "1g.67gb", "1g.34gb"),
            Geometry(
                "A30-24GB",
                4,
                (
                    Profile("4g.24gb", 4, (0,)),
                    Profile("2g.12gb", 2, (0, 2)),
                    Profile("1g.6gb", 1, (0, 1, 2, 3)),
                ),
            ),
        )
    }
)

_ONE_SIZE = ("A30", "H20", "H200", "B200", "B300")
"""Models with a single memory size; the names of all others must state the size."""
_WORDS = re.compile(r"[A-Z0-9]+")


def geometry_of(gpu_type: str) -> Geometry | None:
    """Returns the geometry of a `gpu-type`: "A100-40GB", NVIDIA's product label ("NVIDIA-A100-SXM4-40GB"), "A30".

    None: an unknown model, or a model with several memory sizes whose name does not state one.
    """
    words = set(_WORDS.findall(gpu_type.upper()))
    for model, geometry in GEOMETRIES.items():
        name, size = model.split("-")
        if name in words and (size in words or (name in _ONE_SIZE and not any(word.endswith("GB") for word in words))):
            return geometry
    return None
