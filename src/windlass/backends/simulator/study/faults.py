"""Parses the faults of a simulation from one line or a file."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from pathlib import Path

from windlass.backends.simulator.errors import SimulationError
from windlass.backends.simulator.faults import Fault, FaultKind, FaultRate, Rates, draw_faults, read_faults
from windlass.backends.simulator.traces.job import Trace
from windlass.jobs.syntax.durations import format_duration, parse_duration
from windlass.jobs.syntax.names import did_you_mean

_KINDS = [kind.value for kind in FaultKind]
_EXAMPLE = "node=30d/4h gpu=90d/12h"


@dataclass(frozen=True, slots=True)
class FaultModel:
    """Fault rates, from which each seed draws its own faults, or a fixed list on the trace's clock for all seeds."""

    rates: Rates = field(default_factory=dict)
    listed: tuple[Fault, ...] = ()

    def of(self, trace: Trace, nodes: Iterable[str], seed: int) -> tuple[Fault, ...]:
        """Returns the faults of one seed.

        The period begins at the first submission and lasts twice the span of arrivals plus the longest duration.
        """
        begin, end = trace.jobs[0].submit, trace.jobs[-1].submit
        horizon = 2 * (end - begin + max(job.duration for job in trace.jobs))
        drawn = draw_faults(nodes, self.rates, horizon, seed)
        moved = [replace(f, at=f.at + begin, until=f.until + begin if f.until else 0) for f in drawn]
        return (*self.listed, *moved)

    @property
    def about(self) -> str:
        """Describes the faults for people."""
        if self.listed:
            return f"{len(self.listed):,} faults from a list."
        rates = ", ".join(
            f"{kind.value} every {format_duration(rate.between)}"
            + (f" for {format_duration(rate.lasts)}" if rate.lasts else "")
            for kind, rate in self.rates.items()
        )
        return f"Every node has faults, on average: {rates}."


def parse_faults(text: str, nodes: Iterable[str]) -> FaultModel:
    """Parses `node=30d/4h gpu=90d/12h`, or reads the file of that name. Raises SimulationError.

    Each kind has the mean time between two faults on one node and the duration of a fault.
    """
    if "=" not in text or Path(text).exists():
        return FaultModel(listed=read_faults(text, nodes))
    rates: Rates = {}
    for word in text.replace(",", " ").split():
        kind, _, times = word.partition("=")
        if kind not in _KINDS:
            raise SimulationError(f"--faults: there are no faults {kind!r}{did_you_mean(kind, _KINDS)}")
        between, _, lasts = times.partition("/")
        try:
            rates[FaultKind(kind)] = FaultRate(parse_duration(between), parse_duration(lasts) if lasts else 0)
        except ValueError as error:
            raise SimulationError(f"--faults: {kind} {error}; write for example '{_EXAMPLE}'") from None
        if not rates[FaultKind(kind)].between:
            raise SimulationError(
                f"--faults: {kind} needs some time between two of them; write for example '{_EXAMPLE}'"
            )
    return FaultModel(rates)
