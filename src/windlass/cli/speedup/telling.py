"""The table of a comparison, and what it does not say by itself."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

from windlass.cli.output import Column, Listing
from windlass.cli.speedup.figures import Measured

Row = dict[str, Any]
_SEEN = 0.05
"""ms: what takes less is 0.0 in the table."""


def listing(rows: Sequence[Row]) -> Listing:
    """With a column for each phase that takes time."""
    phases = dict.fromkeys(name for row in rows for name, spent in row["phases"].items() if spent >= _SEEN)
    columns = [
        Column("RANKS", lambda row: str(row["ranks"]), right=True),
        Column("NODES×PROCS", lambda row: f"{row['nodes']}×{row['procs']}", wide=True),
        Column("SPEED-UP", lambda row: f"{row['speedup']:.2f}", right=True),
        Column("EFFICIENCY", lambda row: f"{row['efficiency']:.0%}", right=True),
    ]
    if rows and rows[0]["phases"]:
        columns += [
            Column("SAMPLES/S", lambda row: f"{row['samples_per_second']:,.4g}", right=True),
            Column("MS A STEP", lambda row: _ms(row["step_ms"]), right=True),
            *(Column(name.upper(), _spent(name), right=True) for name in phases),
            Column("STEPS", lambda row: str(row["steps"]), right=True, wide=True),
            Column("BATCH", lambda row: str(row["batch"]), right=True, wide=True),
        ]
    columns += [
        Column("RAN", lambda row: f"{row['seconds']:.1f} s", right=True, wide=bool(phases)),
        Column("JOB", lambda row: row["job"], wide=True),
    ]
    return Listing(tuple(columns), key="job", empty="nothing was measured")


def notes(rows: Sequence[Row], runs: Sequence[Measured], cores: int, sharing: Sequence[int]) -> Iterator[str]:
    """What one has to know to read the table rightly. `sharing`: numbers of ranks with less than a core each."""
    if not rows[0]["phases"]:
        yield (
            "no steps were told (that is what windlass.train does): whole runs are compared, "
            "with the time that ranks take to start and end"
        )
        if not all(run.whole for run in runs):
            yield "not all of these runs ended by themselves, so their times are no measure of speed"
    batches = {row["ranks"]: row["batch"] for row in rows if row["batch"]}
    if len(set(batches.values())) > 1:
        told = ", ".join(f"{batch} on {ranks}" for ranks, batch in batches.items())
        yield f"the batch grew with the ranks (samples in a step: {told}): this is weak scaling"
    if sharing:
        told = ", ".join(map(str, sharing))
        yield f"{cores} core{'s' * (cores != 1)} here: {told} ranks share them, and cannot be faster than {cores}"


def _ms(value: float) -> str:
    return f"{value:.1f}" if value < 100 else f"{value:,.0f}"


def _spent(name: str) -> Callable[[Row], str]:
    return lambda row: _ms(row["phases"].get(name, 0.0))
