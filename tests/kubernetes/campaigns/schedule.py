"""Draws a schedule: the faults and the arrivals of gangs, each with its time. Equal seeds give equal schedules."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from random import Random

FAULTS = (
    "leader_killed",
    "apiserver_killed",
    "etcd_killed",
    "controller_manager_killed",
    "connections_cut",
    "watches_stalled",
    "watches_expired",
    "burst_of_500",
    "burst_of_409",
    "burst_of_429",
    "answers_lost",
    "webhook_down",
    "node_not_ready",
    "clock_step",
    "etcd_full",
    "rank_killed",
)
LOADS = (
    "training_job",
    "failing_training_job",
    "pytorch_job",
    "pytorch_job_as_gang",
    "tf_job",
    "jax_job",
    "xgboost_job",
    "paddle_job",
    "mpi_job",
    "train_job",
    "batch_job",
    "job_set",
    "coscheduling_group",
    "volcano_group",
    "native_group",
    "sized_gang",
    "single_pod",
)
SPAN_S = 6.0
"""Faults begin and gangs arrive within this time."""
GANGS = 8


@dataclass(frozen=True, slots=True)
class PlannedFault:
    """A fault that begins at `at` and lasts `duration`, in seconds. `choice` (0 to 1) selects its target."""

    at: float
    name: str
    duration: float
    choice: float


@dataclass(frozen=True, slots=True)
class Arrival:
    """A gang of `size` pods that is created at `at` seconds, and whose pods work for `work` seconds."""

    at: float
    load: str
    size: int
    work: float


@dataclass(frozen=True, slots=True)
class Schedule:
    seed: int
    faults: tuple[PlannedFault, ...]
    arrivals: tuple[Arrival, ...]

    def __str__(self) -> str:
        faults = ", ".join(f"{each.at:.1f} s {each.name} for {each.duration:.1f} s" for each in self.faults)
        return f"seed {self.seed}: {faults}"


def draw_schedule(seed: int, faults: Sequence[str] = FAULTS, span: float = SPAN_S) -> Schedule:
    """Draws three to six faults among `faults`, and the arrivals of eight gangs of different kinds."""
    rng = Random(seed)  # noqa: S311 - faults, not secrets
    planned = [
        PlannedFault(rng.uniform(0, span), rng.choice(faults), rng.uniform(0.3, 2.5), rng.random())
        for _ in range(rng.randint(3, 6))
    ]
    arrivals = [
        Arrival(rng.uniform(0, 0.8 * span), load, rng.randint(2, 4), rng.uniform(0.3, 2.0))
        for load in rng.sample(LOADS, GANGS)
    ]
    return Schedule(seed, tuple(sorted(planned, key=_at)), tuple(sorted(arrivals, key=_at)))


def _at(each: PlannedFault | Arrival) -> float:
    return each.at
