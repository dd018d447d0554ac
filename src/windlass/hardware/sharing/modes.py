"""Ways in which a GPU is used, and what each of them gives to one pod: memory, share of compute, isolation.

Sources: NVIDIA k8s-device-plugin, "Shared Access to GPUs" (replicas, equal shares of memory and threads under MPS, no
isolation under time-slicing); CUDA Multi-Process Service, "Volta MPS" (48 clients, memory limits, error containment:
a fatal error ends all clients of the GPU); MIG User Guide (instances have memory, compute and faults of their own).
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import StrEnum

from windlass.core.model.mig import Geometry, Profile
from windlass.hardware.sharing.request import USABLE, Isolation, Pool

MOST_REPLICAS = 48
"""Most pods on one GPU: the limit of MPS clients since Volta, used for time-slicing too."""
_SLICES = re.compile(r"([1-7])g\.([0-9]+)gb")


class Mode(StrEnum):
    """Use of one GPU."""

    WHOLE = "whole"
    MIG = "mig"
    MPS = "mps"
    TIME_SLICING = "time-slicing"

    @property
    def isolation(self) -> Isolation:
        """Strongest isolation between pods of one GPU."""
        if self is Mode.TIME_SLICING:
            return Isolation.NONE
        return Isolation.MEMORY if self is Mode.MPS else Isolation.FAULT

    @property
    def is_of_node(self) -> bool:
        """Tells whether the device plugin's configuration gives the mode to all GPUs of a node without MIG."""
        return self is not Mode.MIG


@dataclass(frozen=True, slots=True)
class Use:
    """A mode with its size: `replicas` pods on a GPU under MPS and time-slicing, or a MIG profile."""

    mode: Mode
    replicas: int = 1
    profile: Profile | None = None

    def __str__(self) -> str:
        if self.profile:
            return f"mig {self.profile.name}"
        return f"{self.mode} × {self.replicas}" if self.replicas > 1 else str(self.mode)

    def memory(self, pool: Pool) -> int:
        """Returns the bytes that one pod can allocate."""
        if self.profile is None:
            return pool.usable // self.replicas
        gigabytes = int(_numbers(self.profile)[1])
        shared = pool.gpu.memory * self.profile.slices // _geometry(pool).slices
        return int(min(gigabytes * 10**9, shared) * USABLE)

    def share(self, pool: Pool) -> float:
        """Returns the fraction of the GPU's compute that one pod always has; 1 under time-slicing, at its turn."""
        if self.profile is not None:
            return _numbers(self.profile)[0] / _numbers(_geometry(pool).profiles[0])[0]
        return 1 / self.replicas if self.mode is Mode.MPS else 1.0

    def size(self, pool: Pool) -> float:
        """Returns the fraction of a GPU that one pod occupies: the larger one of memory and compute under MIG."""
        if self.profile is not None:
            return max(self.profile.slices / _geometry(pool).slices, self.share(pool))
        return 1 / self.replicas


def find_use(text: str, pool: Pool) -> Use | None:
    """Returns the use that a request names, such as `mps:4` or `mig:2g.20gb`; None if the pool has no such profile."""
    mode, _, size = text.partition(":")
    if mode != Mode.MIG:
        return Use(Mode(mode), int(size or 1))
    profiles = pool.gpu.geometry.profiles if pool.gpu.geometry else ()
    return next((Use(Mode.MIG, profile=each) for each in profiles if each.name == size), None)


def _numbers(profile: Profile) -> tuple[int, int]:
    """Returns compute slices and gigabytes of a profile's name."""
    found = _SLICES.match(profile.name)
    assert found is not None  # noqa: S101 - names of the table have this form
    return int(found[1]), int(found[2])


def _geometry(pool: Pool) -> Geometry:
    geometry = pool.gpu.geometry
    assert geometry is not None  # noqa: S101 - a use with a profile exists only where there is one
    return geometry
