"""Parses the cost of starts and checkpoints in a simulation from one line."""

from __future__ import annotations

from windlass.backends.simulator.errors import SimulationError
from windlass.backends.simulator.progress import Costs
from windlass.jobs.syntax import value_types
from windlass.jobs.syntax.field import Field, Table
from windlass.jobs.syntax.settings_line import read_spelled

COSTS: Table = (
    Field("start", "Before the first step of a job.", value_types.DURATION, default="0s", example="20s"),
    Field("restart", "Before the first step after each restart.", value_types.DURATION, default="0s", example="1m"),
    Field("checkpoint_every", "Work between two checkpoints.", value_types.DURATION, default="never", example="30m"),
    Field("checkpoint", "Duration of a checkpoint.", value_types.DURATION, default="0s", example="20s"),
    Field(
        "saves_when_stopped",
        "Whether a gang that is preempted saves.",
        value_types.FLAG,
        default="true",
        example="false",
    ),
)


def parse_costs(text: str) -> Costs:
    """Parses `restart=1m checkpoint-every=30m checkpoint=20s`; a missing key costs nothing. Raises SimulationError."""
    try:
        return Costs(**read_spelled(text.replace(",", " ").split(), COSTS))
    except ValueError as error:
        raise SimulationError(f"--costs: {error}") from None
