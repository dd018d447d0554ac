"""What was asked for, and what each run of it gave."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from windlass.backends.simulator.metrics import Metrics
from windlass.backends.simulator.outcome import Outcome
from windlass.core.model.policy import Policy


@dataclass(frozen=True, slots=True)
class Source:
    """One trace that was read or made."""

    name: str
    """Without folders: the same page comes out wherever the file lies."""
    about: str
    """Its format, or the law it was made by."""
    jobs: int
    sha256: str = ""
    """Of the file's bytes; "" for what was made."""


@dataclass(frozen=True, slots=True)
class Experiment:
    """What was asked for, in words that can be typed again."""

    command: str
    """The command that does the same again, paths without their folders."""
    sources: tuple[Source, ...]
    cluster: str
    """In words: "96 nodes with 8 GPUs each"."""
    policies: Mapping[str, Policy]
    """By the name under which they were asked for, in that order."""
    seeds: tuple[int, ...]
    random: str
    """What the seeds change, in words; "" if nothing: then there is one run for each policy."""
    conditions: tuple[str, ...] = ()
    """Whatever else was set, a sentence each."""


@dataclass(frozen=True, slots=True)
class Run:
    """One policy under one seed."""

    policy: str
    seed: int
    metrics: Metrics
    outcome: Outcome | None = field(default=None, repr=False)
    """Of the first seed only: what is drawn."""
