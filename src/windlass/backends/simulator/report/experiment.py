"""The description of an experiment, and the result of each run."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from windlass.backends.simulator.metrics import Metrics
from windlass.backends.simulator.outcome import Outcome
from windlass.core.model.policy import Policy


@dataclass(frozen=True, slots=True)
class TraceSource:
    """One trace, read or synthetic."""

    name: str
    """File name without folders, so that the page does not depend on where the file is."""
    about: str
    """Its format, or the distribution that it was drawn from."""
    jobs: int
    sha256: str = ""
    """Hash of the file's bytes; "" for a synthetic trace."""


@dataclass(frozen=True, slots=True)
class Experiment:
    """The experiment in terms of its command line."""

    command: str
    """The command that repeats it, with file names instead of paths."""
    sources: tuple[TraceSource, ...]
    cluster: str
    """Description: "96 nodes with 8 GPUs each"."""
    policies: Mapping[str, Policy]
    """Policies by the name on the command line, in that order."""
    seeds: tuple[int, ...]
    random: str
    """Description of what the seeds change; "" if nothing: then each policy has one run."""
    conditions: tuple[str, ...] = ()
    """All other settings, a sentence each."""


@dataclass(frozen=True, slots=True)
class PolicyRun:
    """One policy under one seed."""

    policy: str
    seed: int
    metrics: Metrics
    outcome: Outcome | None = field(default=None, repr=False)
    """Present for the first seed only, whose runs are drawn."""
