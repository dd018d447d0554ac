"""The faults of a simulation, said on one line or in a file."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from pathlib import Path

from windlass.backends.simulator.errors import SimError
from windlass.backends.simulator.faults import Fault, FaultKind, Rate, Rates, draw_faults, read_faults
from windlass.backends.simulator.traces.job import Trace
from windlass.jobs.syntax.durations import format_duration, parse_duration
from windlass.jobs.syntax.names import did_you_mean

_KINDS = [kind.value for kind in FaultKind]
_EXAMPLE = "node=30d/4h gpu=90d/12h"


@dataclass(frozen=True, slots=True)
class Faults:
    """Rates, from which every seed draws its own, or a list on the trace's clock that is the same for all."""

    rates: Rates = field(default_factory=dict)
    listed: tuple[Fault, ...] = ()

    def of(self, trace: Trace, nodes: Iterable[str], seed: int) -> tuple[Fault, ...]:
        """Those of one seed: from the first submission on, twice as long as jobs arrive and the longest one runs."""
        begin, end = trace.jobs[0].submit, trace.jobs[-1].submit
        horizon = 2 * (end - begin + max(job.duration for job in trace.jobs))
        drawn = draw_faults(nodes, self.rates, horizon, seed)
        moved = [replace(f, at=f.at + begin, until=f.until + begin if f.until else 0) for f in drawn]
        return (*self.listed, *moved)

    @property
    def about(self) -> str:
        """In words."""
        if self.listed:
            return f"{len(self.listed):,} faults from a list."
        rates = ", ".join(
            f"{kind.value} every {format_duration(rate.between)}"
            + (f" for {format_duration(rate.lasts)}" if rate.lasts else "")
            for kind, rate in self.rates.items()
        )
        return f"Every node has faults, on average: {rates}."


def read_fault_words(text: str, nodes: Iterable[str]) -> Faults:
    """`node=30d/4h gpu=90d/12h`: by kind, the mean time between two on a node and how long one lasts; or a file.

    Raises SimError.
    """
    if "=" not in text or Path(text).exists():
        return Faults(listed=read_faults(text, nodes))
    rates: Rates = {}
    for word in text.replace(",", " ").split():
        kind, _, times = word.partition("=")
        if kind not in _KINDS:
            raise SimError(f"--faults: there are no faults {kind!r}{did_you_mean(kind, _KINDS)}")
        between, _, lasts = times.partition("/")
        try:
            rates[FaultKind(kind)] = Rate(parse_duration(between), parse_duration(lasts) if lasts else 0)
        except ValueError as error:
            raise SimError(f"--faults: {kind} {error}; write for example '{_EXAMPLE}'") from None
        if not rates[FaultKind(kind)].between:
            raise SimError(f"--faults: {kind} needs some time between two of them; write for example '{_EXAMPLE}'")
    return Faults(rates)
