"""How far a job gets in the time that it holds nodes: what starts and checkpoints cost, and what a loss costs."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Costs:
    """All in ms. The default costs nothing, and a gang that is asked to stop has saved everything by then."""

    start: int = 0
    """Before the first step of a job's first generation."""
    restart: int = 0
    """Before the first step of every later one: charged once per restart."""
    checkpoint_every: int = 0
    """Work between two checkpoints. 0: a job saves only when it is asked to stop."""
    checkpoint: int = 0
    """What each of them takes."""
    saves_when_stopped: bool = True
    """Whether a gang that is asked to stop loses nothing; if not, it loses what a fault would lose it."""


def time_needed(work: int, costs: Costs, *, first: bool) -> int:
    """How long nodes must be held until `work` ms of run time are done. The last part needs no checkpoint."""
    saves = (work - 1) // costs.checkpoint_every if costs.checkpoint_every and work > 0 else 0
    return (costs.start if first else costs.restart) + work + saves * costs.checkpoint


def work_done(held: int, costs: Costs, *, first: bool) -> tuple[int, int]:
    """(done, saved): ms of work in a generation that held nodes so long, and how much of it its checkpoints hold."""
    running = max(0, held - (costs.start if first else costs.restart))
    if not costs.checkpoint_every:
        return running, 0
    rounds, rest = divmod(running, costs.checkpoint_every + costs.checkpoint)
    saved = rounds * costs.checkpoint_every
    return saved + min(rest, costs.checkpoint_every), saved


def work_kept(held: int, costs: Costs, *, first: bool, asked: bool) -> int:
    """What of a generation's work is not lost with it. `asked`: it was asked to stop, and had the time to."""
    done, saved = work_done(held, costs, first=first)
    return done if asked and costs.saves_when_stopped else saved
