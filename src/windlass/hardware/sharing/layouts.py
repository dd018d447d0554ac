"""Packs MIG instances onto GPUs, each at a place that its profile allows, and checks a layout by the places alone."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import TypeAlias

from windlass.core.model.mig import Geometry

Layout: TypeAlias = tuple[tuple[str, int], ...]
"""Instances of one GPU, by their first slice: profile name, first memory slice."""


def pack_instances(geometry: Geometry, instances: Mapping[str, int]) -> list[Layout]:
    """Returns a layout for each GPU: the largest profiles first, each on the GPU with the fewest free slices."""
    open_: Counter[tuple[int, Layout]] = Counter()
    for profile in geometry.profiles:
        for _ in range(instances.get(profile.name, 0)):
            able = [
                (mask.bit_count(), mask, layout)
                for mask, layout in open_
                if geometry.best_start(profile, mask) is not None
            ]
            _, mask, layout = min(able, default=(0, geometry.whole, ()))
            if able:
                open_ -= Counter([(mask, layout)])
            start = geometry.best_start(profile, mask)
            assert start is not None  # noqa: S101 - an empty GPU has room for each profile
            open_[mask - profile.bits(start), (*layout, (profile.name, start))] += 1
    layouts = [tuple(sorted(layout, key=lambda each: each[1])) for _, layout in open_.elements()]
    return sorted(layouts, key=lambda layout: (-len(layout), layout))


def layout_faults(geometry: Geometry, layout: Layout) -> list[str]:
    """Returns the faults of a layout: unknown profiles, places that a profile lacks, slices that two instances hold."""
    profiles = {profile.name: profile for profile in geometry.profiles}
    faults = []
    used = 0
    for name, start in layout:
        if name not in profiles:
            faults.append(f"{geometry.model} has no profile {name}")
        elif start not in profiles[name].starts:
            faults.append(f"{name} does not start at slice {start}")
        else:
            bits = profiles[name].bits(start)
            faults += [f"{name} at slice {start} overlaps another instance"] * bool(used & bits)
            used |= bits
    return faults


def count_profiles(layouts: Iterable[Layout]) -> dict[str, int]:
    """Returns the number of instances of each profile, the largest number first."""
    return dict(Counter(name for layout in layouts for name, _ in layout).most_common())
