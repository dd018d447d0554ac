"""Degrees of parallelism: how many ways the work is split in each of five manners. Pure."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, fields, replace
from difflib import get_close_matches

from windlass.train.errors import TrainError

REST = "*"
"""Stands for the degree that makes the product come out."""


@dataclass(frozen=True, slots=True)
class Degrees:
    """A mesh, outermost dimension first: ranks next to each other differ in `tp` first."""

    pp: int = 1
    """Pipeline stages."""
    dp: int = 1
    """Replicas of everything, which average their gradients."""
    fsdp: int = 1
    """Shards of parameters, gradients and optimizer state (FSDP2; with `dp` hybrid sharding)."""
    cp: int = 1
    """Parts of each sequence."""
    tp: int = 1
    """Parts of each matrix, and of each sequence between them."""

    @property
    def size(self) -> int:
        """Ranks in all."""
        return math.prod(count for _, count in self)

    @property
    def sharing(self) -> Degrees:
        """Those by which parameters are shared out: for them parts of a sequence are what parts of a batch are."""
        if self.fsdp > 1:
            return replace(self, fsdp=self.fsdp * self.cp, cp=1)
        return replace(self, dp=self.dp * self.cp, cp=1)

    @property
    def data_ranks(self) -> int:
        """Ranks that read different samples."""
        return self.dp * self.fsdp

    def __iter__(self) -> Iterator[tuple[str, int]]:
        """(name, degree), outermost first."""
        return ((field.name, getattr(self, field.name)) for field in fields(self))

    def __str__(self) -> str:
        return ",".join(f"{name}={count}" for name, count in self if count > 1) or "dp=1"


@dataclass(frozen=True, slots=True)
class Coordinates:
    """Where one rank is in a mesh, from 0 in each dimension."""

    pp: int
    dp: int
    fsdp: int
    cp: int
    tp: int


def degrees_of(text: str, world: int) -> Degrees:
    """The mesh that a text like "pp=2,dp=*,tp=2" means for so many ranks; "" is plain data parallelism.

    Raises TrainError with every number that matters.
    """
    written = _written(text or f"dp={REST}")
    stars = [name for name, degree in written.items() if degree is None]
    if len(stars) > 1:
        raise TrainError(f"mesh {text!r}: only one degree can be {REST}, and {' and '.join(stars)} are")
    known = math.prod(degree for degree in written.values() if degree is not None)
    if stars and world % known:
        raise TrainError(
            f"mesh {text!r}: the other degrees make {known} ranks, which do not divide the {world} that there are"
        )
    rest = world // known if stars else 1
    found = Degrees(**{name: rest if degree is None else degree for name, degree in written.items()})
    if found.size != world:
        raise TrainError(_unequal(text, found, world))
    return found


def refuse_what_is_not_there(degrees: Degrees) -> None:
    """Raises TrainError for a split that this version does not make."""
    if degrees.cp > 1 and degrees.pp > 1:
        raise TrainError(
            f"pp={degrees.pp},cp={degrees.cp}: parts of a sequence do not pass through stages; cp with fsdp"
        )


def coordinates_of(degrees: Degrees, rank: int) -> Coordinates:
    """Where a rank is: the last dimension goes fastest."""
    place: dict[str, int] = {}
    for name, count in reversed(list(degrees)):
        rank, place[name] = divmod(rank, count)
    return Coordinates(**place)


def data_rank(degrees: Degrees, rank: int) -> int:
    """Which slice of each batch a rank reads, from 0."""
    here = coordinates_of(degrees, rank)
    return here.dp * degrees.fsdp + here.fsdp


def _written(text: str) -> dict[str, int | None]:
    """Degree by name as written; None stands for the rest."""
    found: dict[str, int | None] = {}
    for part in text.replace(" ", "").split(","):
        name, _, degree = part.partition("=")
        known = [field.name for field in fields(Degrees)]
        if name not in known:
            near = get_close_matches(name, known, n=1)
            hint = f"did you mean {near[0]}?" if near else f"there are {', '.join(known)}"
            raise TrainError(f"mesh {text!r}: there is no dimension {name!r}; {hint}")
        if name in found:
            raise TrainError(f"mesh {text!r}: {name} is given twice")
        if degree != REST and not (degree.isascii() and degree.isdigit() and int(degree)):
            raise TrainError(f"mesh {text!r}: {part!r} is no degree; write {name}=2, or {name}={REST} for what is left")
        found[name] = None if degree == REST else int(degree)
    return found


def _unequal(text: str, found: Degrees, world: int) -> str:
    """What would come out even, of the changes of one degree; data parallelism first, as it asks least of a model."""
    product = " × ".join(f"{name} {count}" for name, count in found if count > 1) or "1"
    fits = [
        f"{name}={world * count // found.size}"
        for name, count in sorted(found, key=lambda each: ("dp", "fsdp", "pp", "tp", "cp").index(each[0]))
        if (world * count) % found.size == 0
        and replace(found, **{name: world * count // found.size}).size == world
        and world * count // found.size > 0
    ]
    hint = f"; with {' or '.join(fits[:3])} it comes out even" if fits else ""
    return f"mesh {text!r} makes {found.size} ranks ({product}), and there are {world}{hint}"
