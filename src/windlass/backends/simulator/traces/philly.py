"""Microsoft's Philly trace, as published by the authors of Helios: one row per job, with its total of GPUs.

Source: Jeon et al., "Analysis of Large-Scale Multi-Tenant GPU Clusters", ATC'19; columns of the CSV of
"Characterization and Prediction of Deep Learning Workloads", SC'21.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from windlass.backends.simulator.traces import cells as c
from windlass.backends.simulator.traces.job import TraceJob
from windlass.backends.simulator.traces.table import Columns, Parser, cell, needs


def _parser(at: Mapping[str, int]) -> Parser:
    submit, duration, gpus, cluster = at["timestamp"], at["duration"], at["num_gpus"], at.get("cluster")
    width = len(at)

    def job(cells: Sequence[str], row: int) -> TraceJob:
        needs(cells, width)
        return TraceJob(
            id=f"philly-{row}",
            submit=c.parse_moment(cells[submit], "timestamp"),
            duration=c.parse_duration(cells[duration], "duration"),
            gpus=c.parse_gpus(cells[gpus], "num_gpus"),
            replicas=None,
            queue=cell(cells, cluster) or "default",
            row=row,
        )

    return job


PHILLY = Columns("philly", "Philly CSV", ("timestamp", "duration", "num_gpus"), _parser)
