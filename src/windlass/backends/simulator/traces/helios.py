"""SenseTime's Helios trace: `cluster_log.csv`, one row per job, with the nodes that the job ran on.

Source: Hu et al., "Characterization and Prediction of Deep Learning Workloads in Large-Scale GPU Datacenters", SC'21.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from windlass.backends.simulator.traces import cells as c
from windlass.backends.simulator.traces.job import TraceJob
from windlass.backends.simulator.traces.table import Columns, Parser, cell, needs


def _parser(at: Mapping[str, int]) -> Parser:
    submit, duration, gpus = at["submit_time"], at["duration"], at["gpu_num"]
    width = len(at)

    def job(cells: Sequence[str], row: int) -> TraceJob:
        needs(cells, width)
        in_all, cores = c.parse_gpus(cells[gpus], "gpu_num"), cell(cells, at.get("cpu_num")) or "0"
        return TraceJob(
            id=cell(cells, at.get("job_id")) or f"helios-{row}",
            submit=c.parse_moment(cells[submit], "submit_time"),
            duration=c.parse_duration(cells[duration], "duration"),
            gpus=in_all,
            replicas=None,
            cpu=c.parse_integer(cores, "cpu_num", 10**7) * 1000,
            user=cell(cells, at.get("user")),
            queue=cell(cells, at.get("vc")) or "default",
            status=cell(cells, at.get("state")),
            row=row,
        )

    return job


HELIOS = Columns("helios", "Helios CSV", ("gpu_num", "submit_time", "duration"), _parser)
