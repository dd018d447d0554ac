"""What a command line says of the cluster it wants."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class ClusterOptions:
    """Nothing given: what is found on this machine. `gpus` are of each node."""

    nodes: int | None = None
    gpus: int | None = None
    file: Path | None = None
    policy: str = ""
    """How nodes are given away: "fair", "windlass:min_runtime=1m"; "": as the file says, else as by default."""
