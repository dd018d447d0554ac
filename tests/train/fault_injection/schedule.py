"""Random faults of test runs: kinds, order and steps, drawn from a seed, without side effects.

`faulted_run` injects them.
"""

from __future__ import annotations

import random
from collections.abc import Iterable, Mapping, Sequence
from enum import StrEnum
from typing import NamedTuple


class Kind(StrEnum):
    """Kind of fault; the value is its name in the report."""

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


WITHOUT_RECOVERY = frozenset({Kind.FLIP, Kind.S3_ERRORS, Kind.S3_SLOW, Kind.S3_CUT, Kind.S3_LAG})
"""Kinds that end no process: they affect the next save or load, so another fault must follow."""
S3_FAULTS = frozenset({Kind.S3_ERRORS, Kind.S3_SLOW, Kind.S3_CUT, Kind.S3_LAG})
DISK_FAULTS = frozenset({Kind.FULL})
_AGENT_RESTARTS = frozenset({Kind.KILL_AGENT, Kind.TERM_AGENT, Kind.TORN})
_SHUFFLES = 100
_FIRST, _GAP = 9, 5
"""Number of steps before the first fault, so that there are two checkpoints, and between two faults."""


class Fault(NamedTuple):
    """A fault that is injected when the run has reached a step."""

    kind: Kind
    step: int
    draw: int
    """Seed of the random choices that the kind leaves open, such as the rank."""


def draw_faults(kinds: Iterable[Kind], seed: int) -> list[Fault]:
    """Returns the faults in a random order. Raises ValueError if none of them makes the run load a checkpoint."""
    rng = random.Random(seed)  # noqa: S311 - a dice
    order = list(kinds)
    if not any(kind not in WITHOUT_RECOVERY for kind in order):
        raise ValueError(f"{order}: nothing makes the run load what it saved")
    order = min((rng.sample(order, len(order)) for _ in range(_SHUFFLES)), key=_order_cost)
    faults, step = [], _FIRST + rng.randrange(4)
    for kind in order:
        faults.append(Fault(kind, step, rng.randrange(1 << 30)))
        step += 0 if kind is Kind.FLIP else _GAP + rng.randrange(4)
    return faults


def required_steps(faults: Sequence[Fault]) -> int:
    """Returns the number of steps of a run with these faults, with a margin for late faults and after the last one."""
    return faults[-1].step + 2 * _GAP + 10 * len(faults)


def _order_cost(order: Sequence[Kind]) -> int:
    """Returns a cost: low if damage is loaded later, and if there are few failures in a row, which delay restarts."""
    in_a_row = longest = 0
    for kind in order:
        in_a_row = 0 if kind in _AGENT_RESTARTS else in_a_row + (kind not in WITHOUT_RECOVERY and kind is not Kind.FULL)
        longest = max(longest, in_a_row)
    return longest + (len(order) if order[-1] in WITHOUT_RECOVERY else 0)


def assign_faults(bag: Mapping[Kind, int], places: Sequence[str], seed: int) -> list[list[Kind]]:
    """Distributes faults evenly over runs. `bag`: number of faults by kind; `places`: "disk" or "s3" for each run.

    Faults of one kind of storage are assigned to runs on that storage.
    """
    rng = random.Random(seed)  # noqa: S311 - a dice
    assigned: list[list[Kind]] = [[] for _ in places]
    faults = [kind for kind, count in bag.items() for _ in range(count)]
    rng.shuffle(faults)
    # Faults without recovery first, so that each run ends with another one; then faults of one kind of storage.
    faults.sort(key=lambda kind: (kind not in WITHOUT_RECOVERY, kind not in S3_FAULTS | DISK_FAULTS))
    for kind in faults:
        candidates = [kinds for kinds, place in zip(assigned, places, strict=True) if kind not in _UNSUPPORTED[place]]
        least = min(map(len, candidates))
        rng.choice([kinds for kinds in candidates if len(kinds) == least]).append(kind)
    return assigned


_UNSUPPORTED = {"disk": S3_FAULTS, "s3": DISK_FAULTS}
