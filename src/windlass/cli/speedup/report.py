"""Table of a scaling comparison, and notes that qualify its numbers."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from windlass.cli.speedup.charts import SHORTEST_PHASE_MS
from windlass.cli.speedup.throughput import MeasuredRun
from windlass.cli.terminal.formatting import pluralize
from windlass.cli.terminal.output import Column, Listing

Row = dict[str, Any]
_MAX_LOAD_PER_CORE = 0.5
"""Load per core above which a measurement is unreliable."""


def comparison_table(rows: Sequence[Row]) -> Listing:
    """Returns the table, with a column for each phase of a step."""
    phases = dict.fromkeys(name for row in rows for name, spent in row["phases"].items() if spent >= SHORTEST_PHASE_MS)
    columns = [
        Column("RANKS", lambda row: str(row["ranks"]), right=True),
        Column("NODES×PROCS", lambda row: f"{row['nodes']}×{row['procs']}", wide=True),
        Column("SPEED-UP", lambda row: f"{row['speedup']:.2f}", right=True),
        Column("EFFICIENCY", lambda row: f"{row['efficiency']:.0%}", right=True),
    ]
    if rows and rows[0]["phases"]:
        columns += [
            Column("SAMPLES/S", lambda row: f"{row['samples_per_second']:,.4g}", right=True),
            Column("MS PER STEP", lambda row: _ms(row["step_ms"]), right=True),
            *(Column(name.upper(), _spent(name), right=True) for name in phases),
            Column("STEPS", lambda row: str(row["steps"]), right=True, wide=True),
            Column("BATCH", lambda row: str(row["batch"]), right=True, wide=True),
        ]
    columns += [
        Column("RAN", lambda row: f"{row['seconds']:.1f} s", right=True, wide=bool(phases)),
        Column("JOB", lambda row: row["job"], wide=True),
    ]
    return Listing(tuple(columns), key="job", empty="nothing was measured")


@dataclass(frozen=True, slots=True)
class MachineLoad:
    """`load`: load average before the first run. `sharing`: numbers of ranks with less than a core per rank."""

    cores: int
    load: float = 0.0
    sharing: tuple[int, ...] = ()


def comparison_notes(rows: Sequence[Row], runs: Sequence[MeasuredRun], machine: MachineLoad) -> Iterator[str]:
    """Yields notes on how to interpret the table."""
    if not rows[0]["phases"]:
        yield (
            "no step times were reported (windlass.train reports them): whole runs are compared, "
            "including the time in which ranks start and end"
        )
        if not all(run.whole for run in runs):
            yield "not all runs ended by themselves, so their durations do not measure speed"
    batches = {row["ranks"]: row["batch"] for row in rows if row["batch"]}
    if len(set(batches.values())) > 1:
        sizes = ", ".join(f"{batch} on {ranks}" for ranks, batch in batches.items())
        yield f"the batch grew with the ranks (samples per step: {sizes}): this is weak scaling"
    cores = pluralize(machine.cores, "core")
    if machine.sharing:
        sizes = ", ".join(map(str, machine.sharing))
        yield f"this machine has {cores}: {sizes} ranks share them and cannot be faster than {machine.cores} ranks"
    if machine.load > _MAX_LOAD_PER_CORE * machine.cores:
        yield f"the machine was busy before the first run (load {machine.load:.1f} on {cores}): measure on an idle one"


def _ms(value: float) -> str:
    return f"{value:.1f}" if value < 100 else f"{value:,.0f}"


def _spent(name: str) -> Callable[[Row], str]:
    return lambda row: _ms(row["phases"].get(name, 0.0))
