"""Muri's traces: iterations of a known length on a total number of GPUs.

Source: Zhao et al., "Multi-Resource Interleaving for Deep Learning Training", SIGCOMM'22. A job's work is
iterations × iteration_time × 1.015 / 1000 s. The column `priority` is ignored: no published policy reads it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from windlass.backends.simulator.errors import RowError
from windlass.backends.simulator.traces import cells as c
from windlass.backends.simulator.traces.job import TraceJob
from windlass.backends.simulator.traces.table import Columns, Parser, cell, needs

_OVERHEAD = 1015
"""Thousandths of the iterations' own time: the overhead that the simulator of the published figures adds."""


def _parser(at: Mapping[str, int]) -> Parser:
    submit, gpus = at["submit_time"], at["num_gpu"]
    iterations, each = at["iterations"], at["iteration_time"]
    width = len(at)

    def job(cells: Sequence[str], row: int) -> TraceJob:
        needs(cells, width)
        count = c.parse_integer(cells[iterations], "iterations", 10**12)
        ms = c.parse_number(cells[each], "iteration_time", 10**9)
        if count * ms > c.LONGEST_S * 1000:
            raise RowError(
                "value out of range", f"iterations × iteration_time is {count * ms / 1000:,.0f} s (over ten years)"
            )
        return TraceJob(
            id=cell(cells, at.get("job_id")) or f"muri-{row}",
            submit=c.parse_integer(cells[submit], "submit_time", c.LATEST_S * 1000),
            duration=round(count * ms * _OVERHEAD / 1000),
            gpus=c.parse_gpus(cells[gpus], "num_gpu"),
            replicas=None,
            row=row,
        )

    return job


MURI = Columns("muri", "Muri CSV", ("num_gpu", "submit_time", "iterations", "iteration_time"), _parser)
