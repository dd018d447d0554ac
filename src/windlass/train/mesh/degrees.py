"""Degrees of parallelism: the number of parts in each of five dimensions. Pure."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, fields, replace
from difflib import get_close_matches

from windlass.train.errors import TrainError

REST = "*"
"""Placeholder for the degree that completes the product."""


@dataclass(frozen=True, slots=True)
class Degrees:
    """A mesh, outermost dimension first: neighbouring ranks differ in `tp` first."""

    pp: int = 1
    """Pipeline stages."""
    dp: int = 1
    """Replicas of the whole model, which average their gradients."""
    fsdp: int = 1
    """Shards of parameters, gradients and optimizer state (FSDP2; with `dp` hybrid sharding)."""
    cp: int = 1
    """Parts of each sequence."""
    tp: int = 1
    """Parts of each matrix, and of each sequence between them."""

    @property
    def size(self) -> int:
        """Number of ranks."""
        return math.prod(count for _, count in self)

    @property
    def parameter_degrees(self) -> Degrees:
        """The degrees by which parameters are distributed: for them, parts of a sequence count as parts of a batch."""
        if self.fsdp > 1:
            return replace(self, fsdp=self.fsdp * self.cp, cp=1)
        return replace(self, dp=self.dp * self.cp, cp=1)

    @property
    def data_ranks(self) -> int:
        """Number of ranks that read different samples."""
        return self.dp * self.fsdp

    def __iter__(self) -> Iterator[tuple[str, int]]:
        """Yield (name, degree), outermost first."""
        return ((field.name, getattr(self, field.name)) for field in fields(self))

    def __str__(self) -> str:
        return ",".join(f"{name}={count}" for name, count in self if count > 1) or "dp=1"


@dataclass(frozen=True, slots=True)
class Coordinates:
    """The position of one rank in a mesh, from 0 in each dimension."""

    pp: int
    dp: int
    fsdp: int
    cp: int
    tp: int


def parse_degrees(text: str, world: int) -> Degrees:
    """Parse a mesh such as "pp=2,dp=*,tp=2" for `world` ranks; "" is plain data parallelism.

    Raises TrainError, whose text gives all numbers involved.
    """
    written = _parse_parts(text or f"dp={REST}")
    stars = [name for name, degree in written.items() if degree is None]
    if len(stars) > 1:
        raise TrainError(f"mesh {text!r}: only one degree can be {REST}, but {' and '.join(stars)} are")
    known = math.prod(degree for degree in written.values() if degree is not None)
    if stars and world % known:
        raise TrainError(
            f"mesh {text!r}: the other degrees make {known} ranks, which do not divide the world of {world}"
        )
    rest = world // known if stars else 1
    found = Degrees(**{name: rest if degree is None else degree for name, degree in written.items()})
    if found.size != world:
        raise TrainError(_size_mismatch(text, found, world))
    return found


def refuse_unsupported(degrees: Degrees) -> None:
    """Raise TrainError for a combination that this version does not support."""
    if degrees.cp > 1 and degrees.pp > 1:
        raise TrainError(
            f"pp={degrees.pp},cp={degrees.cp}: context parallelism does not work with pipeline stages; use cp with fsdp"
        )


def coordinates_of(degrees: Degrees, rank: int) -> Coordinates:
    """Return the position of a rank; the last dimension varies fastest."""
    position: dict[str, int] = {}
    for name, count in reversed(list(degrees)):
        rank, position[name] = divmod(rank, count)
    return Coordinates(**position)


def data_rank(degrees: Degrees, rank: int) -> int:
    """Return the index of the slice of each batch that a rank reads, from 0."""
    here = coordinates_of(degrees, rank)
    return here.dp * degrees.fsdp + here.fsdp


def _parse_parts(text: str) -> dict[str, int | None]:
    """Return the degrees by name as written; None stands for `*`."""
    found: dict[str, int | None] = {}
    for part in text.replace(" ", "").split(","):
        name, _, degree = part.partition("=")
        known = [field.name for field in fields(Degrees)]
        if name not in known:
            near = get_close_matches(name, known, n=1)
            hint = f"did you mean {near[0]}?" if near else f"valid are {', '.join(known)}"
            raise TrainError(f"mesh {text!r}: there is no dimension {name!r}; {hint}")
        if name in found:
            raise TrainError(f"mesh {text!r}: {name} appears twice")
        if degree != REST and not (degree.isascii() and degree.isdigit() and int(degree)):
            raise TrainError(f"mesh {text!r}: {part!r} is no degree; write {name}=2, or {name}={REST} for the rest")
        found[name] = None if degree == REST else int(degree)
    return found


def _size_mismatch(text: str, found: Degrees, world: int) -> str:
    """Describe a size mismatch, with single changes that would fit; data parallelism first, as the easiest."""
    product = " × ".join(f"{name} {count}" for name, count in found if count > 1) or "1"
    fits = [
        f"{name}={world * count // found.size}"
        for name, count in sorted(found, key=lambda each: ("dp", "fsdp", "pp", "tp", "cp").index(each[0]))
        if (world * count) % found.size == 0
        and replace(found, **{name: world * count // found.size}).size == world
        and world * count // found.size > 0
    ]
    hint = f"; use {' or '.join(fits[:3])}" if fits else ""
    return f"mesh {text!r} makes {found.size} ranks ({product}), and the world has {world}{hint}"
