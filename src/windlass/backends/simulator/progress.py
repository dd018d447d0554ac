"""The progress of a job during its time on nodes: the cost of starts, checkpoints and losses."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Costs:
    """Costs in ms. By default nothing costs time, and a gang that is asked to stop saves all of its work."""

    start: int = 0
    """Before the first step of a job's first generation."""
    restart: int = 0
    """Before the first step of every later generation: charged once per restart."""
    checkpoint_every: int = 0
    """Work between two checkpoints. 0: a job saves only when it is asked to stop."""
    checkpoint: int = 0
    """Duration of a checkpoint."""
    saves_when_stopped: bool = True
    """Whether a gang that is asked to stop loses nothing; if not, it loses as much as by a fault."""


def time_needed(work: int, costs: Costs, *, first: bool) -> int:
    """Returns the time on nodes that `work` ms of run time need. The last part needs no checkpoint."""
    saves = (work - 1) // costs.checkpoint_every if costs.checkpoint_every and work > 0 else 0
    return (costs.start if first else costs.restart) + work + saves * costs.checkpoint


def work_done(held: int, costs: Costs, *, first: bool) -> tuple[int, int]:
    """Returns (done, saved): ms of work in a generation that held nodes for `held` ms, and the part in checkpoints."""
    running = max(0, held - (costs.start if first else costs.restart))
    if not costs.checkpoint_every:
        return running, 0
    rounds, rest = divmod(running, costs.checkpoint_every + costs.checkpoint)
    saved = rounds * costs.checkpoint_every
    return saved + min(rest, costs.checkpoint_every), saved


def work_kept(held: int, costs: Costs, *, first: bool, stopped: bool) -> int:
    """Returns the work of a generation that survives its end. `stopped`: by request, so it had time to save."""
    done, saved = work_done(held, costs, first=first)
    return done if stopped and costs.saves_when_stopped else saved
