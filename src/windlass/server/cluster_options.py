"""Options of the command line that select the local cluster."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class ClusterOptions:
    """Requested nodes; without options the nodes are those found on this machine. `gpus`: of each node."""

    nodes: int | None = None
    gpus: int | None = None
    file: Path | None = None
    policy: str = ""
    """Scheduling policy, such as "fair" or "windlass:min_runtime=1m"; empty: that of the file, else the default."""
