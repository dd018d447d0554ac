"""The faults of a run and their steps, drawn from a seed. Pure."""

from __future__ import annotations

import random
from collections.abc import Iterable, Mapping, Sequence
from enum import StrEnum
from typing import NamedTuple


class Kind(StrEnum):
    """What goes wrong, in the words of the table."""

    KILL = "a rank is killed"
    KILL_WRITING = "a rank is killed while it writes"
    KILL_AGENT = "the agent is killed"
    STOP = "a rank is stopped (SIGSTOP)"
    TERM = "a rank gets SIGTERM"
    TERM_AGENT = "the agent gets SIGTERM"
    TORN = "a write is torn, the agent killed"
    FLIP = "a bit is flipped"
    FULL = "the disk is full"
    S3_ERRORS = "S3: a tenth of requests fails"
    S3_SLOW = "S3: slow"
    S3_CUT = "S3: uploads are cut off"
    S3_LAG = "S3: listings lag behind"


QUIET = frozenset({Kind.FLIP, Kind.S3_ERRORS, Kind.S3_SLOW, Kind.S3_CUT, Kind.S3_LAG})
"""Nobody has to recover from these; they matter to whoever saves or loads next, so another fault follows."""
OF_S3 = frozenset({Kind.S3_ERRORS, Kind.S3_SLOW, Kind.S3_CUT, Kind.S3_LAG})
OF_DISKS = frozenset({Kind.FULL})
_NEW_AGENT = frozenset({Kind.KILL_AGENT, Kind.TERM_AGENT, Kind.TORN})
_DRAWS = 100
_FIRST, _GAP = 9, 5
"""Steps before the first fault, so that there are two checkpoints, and between two of them."""


class Fault(NamedTuple):
    """Comes when the run has reached this step. `draw`: decides what the kind leaves open."""

    kind: Kind
    step: int
    draw: int


def drawn(kinds: Iterable[Kind], seed: int) -> list[Fault]:
    """These faults in an order of the seed's. Raises ValueError where none of them makes a run load anything."""
    chance = random.Random(seed)  # noqa: S311 - a dice
    order = list(kinds)
    if not any(kind not in QUIET for kind in order):
        raise ValueError(f"{order}: nothing makes the run load what it saved")
    order = min((chance.sample(order, len(order)) for _ in range(_DRAWS)), key=_awkward)
    faults, step = [], _FIRST + chance.randrange(4)
    for kind in order:
        faults.append(Fault(kind, step, chance.randrange(1 << 30)))
        step += 0 if kind is Kind.FLIP else _GAP + chance.randrange(4)
    return faults


def steps_for(faults: Sequence[Fault]) -> int:
    """How long a run has to be for them, though some come later than drawn, with some steps behind the last."""
    return faults[-1].step + 2 * _GAP + 2 * len(faults)


def _awkward(order: Sequence[Kind]) -> int:
    """Least where damage is loaded afterwards, and ranks fail so seldom in a row that the agent need not pause."""
    in_a_row = most = 0
    for kind in order:
        in_a_row = 0 if kind in _NEW_AGENT else in_a_row + (kind not in QUIET and kind is not Kind.FULL)
        most = max(most, in_a_row)
    return most + (len(order) if order[-1] in QUIET else 0)


def dealt(bag: Mapping[Kind, int], places: Sequence[str], seed: int) -> list[list[Kind]]:
    """All faults of a bag, dealt evenly to runs at these places, "disk" or "s3": those of a place where they belong."""
    chance = random.Random(seed)  # noqa: S311 - a dice
    hands: list[list[Kind]] = [[] for _ in places]
    cards = [kind for kind, count in bag.items() for _ in range(count)]
    chance.shuffle(cards)
    # Those that nobody recovers from are spread first, then what fits into some hands only.
    cards.sort(key=lambda kind: (kind not in QUIET, kind not in OF_S3 | OF_DISKS))
    for kind in cards:
        fits = [hand for hand, place in zip(hands, places, strict=True) if kind not in _STRANGE[place]]
        least = min(map(len, fits))
        chance.choice([hand for hand in fits if len(hand) == least]).append(kind)
    return hands


_STRANGE = {"disk": OF_S3, "s3": OF_DISKS}
