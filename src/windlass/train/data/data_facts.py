"""Compares the facts that a saved position of a run's data is valid for. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from windlass.train.errors import TrainError


def refuse_other_data(saved: Mapping[str, Any], facts: Mapping[str, int]) -> None:
    """Raise TrainError if the order of samples would not be that of the saved state, where it has the fact."""
    for name, mine in facts.items():
        if name in saved and saved[name] != mine:
            raise TrainError(
                f"the checkpoint's data has {name}={saved[name]}, and this run has {mine}: "
                f"the order of samples would change; keep {name}, or leave the data out of the state to restart it"
            )
