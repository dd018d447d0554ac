"""Alibaba's GPU cluster trace of 2023 (openb): one row per pod, with shared GPUs.

Source: Weng et al., "Beware of Fragmentation", ATC'23. A pod that was never scheduled counts from its
creation.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from windlass.backends.simulator.errors import RowError
from windlass.backends.simulator.traces import cells as c
from windlass.backends.simulator.traces.job import TraceJob
from windlass.backends.simulator.traces.table import Columns, Parser, cell, needs

WHOLE = 1000
"""A whole GPU, in thousandths."""


def _parser(at: Mapping[str, int]) -> Parser:
    width = len(at)

    def job(cells: Sequence[str], row: int) -> TraceJob:
        needs(cells, width)
        begin = cell(cells, at.get("scheduled_time")) or cells[at["creation_time"]]
        submit = c.parse_seconds(cells[at["creation_time"]], "creation_time")
        end = c.parse_seconds(cells[at["deletion_time"]], "deletion_time")
        ran = c.elapsed(end, c.parse_seconds(begin, "scheduled_time"), "deletion_time is before scheduled_time")
        count, milli = _gpus(cells, at)
        return TraceJob(
            id=cell(cells, at.get("name")) or f"openb-{row}",
            submit=submit,
            duration=ran,
            gpus=0 if milli else count,
            cpu=c.parse_integer(cells[at["cpu_milli"]], "cpu_milli", 10**9),
            memory=c.parse_integer(cells[at["memory_mib"]], "memory_mib", 10**9) << 20,
            gpu_milli=milli,
            gpu_types=tuple(filter(None, cell(cells, at.get("gpu_spec")).split("|"))),
            queue=cell(cells, at.get("qos")) or "default",
            status=cell(cells, at.get("pod_phase")),
            row=row,
        )

    return job


def _gpus(cells: Sequence[str], at: Mapping[str, int]) -> tuple[int, int]:
    """Returns (whole GPUs, thousandths of one GPU); the second is 0 unless the pod shares a GPU."""
    count = c.parse_gpus(cells[at["num_gpu"]], "num_gpu")
    milli = c.parse_integer(cell(cells, at.get("gpu_milli")) or str(WHOLE), "gpu_milli", WHOLE)
    if count == 0 or milli == WHOLE:
        return count, 0
    if count > 1:
        raise RowError(
            "value out of range", f"num_gpu is {count} and gpu_milli {milli}; several GPUs are taken whole (1000)"
        )
    return count, milli


OPENB = Columns(
    "openb",
    "openb pod list CSV",
    ("cpu_milli", "memory_mib", "num_gpu", "creation_time", "deletion_time"),
    _parser,
)
