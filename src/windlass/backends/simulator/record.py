"""Records runs as they end, compactly."""

from __future__ import annotations

from array import array
from collections import Counter
from collections.abc import Mapping

import numpy as np

from windlass.backends.simulator.gangs import milli_units
from windlass.backends.simulator.outcome import EndCause, Outcome
from windlass.backends.simulator.traces.job import Trace
from windlass.core.model.gang import Demand
from windlass.core.model.policy import Policy
from windlass.core.model.snapshot import NodeTable
from windlass.core.model.status import Placement
from windlass.jobs.cluster.cluster_file import Cluster


class RunRecord:
    """An append-only record of runs; `outcome` returns it as arrays."""

    def __init__(self, table: NodeTable, unit: str) -> None:
        self._table, self._unit = table, unit
        self._job, self._begin, self._end, self._cause = array("i"), array("q"), array("q"), array("b")
        self._seats, self._row, self._amount = array("q", [0]), array("i"), array("i")

    def add_run(
        self, job: int, demands: tuple[Demand, ...], placement: Placement, begin: int, end: int, cause: EndCause
    ) -> None:
        """Records the end of a run."""
        self._job.append(job)
        self._begin.append(begin)
        self._end.append(end)
        self._cause.append(cause)
        rows = self._table.row
        for demand in demands:
            each = milli_units(demand.resources, self._unit)
            nodes = placement.nodes[demand.role]
            for name, replicas in Counter(nodes).items() if len(nodes) > 1 else ((nodes[0], 1),):
                self._row.append(rows[name])
                self._amount.append(each * replicas)
        self._seats.append(len(self._row))

    def outcome(self, trace: Trace, cluster: Cluster, policy: Policy, left_out: Mapping[str, int]) -> Outcome:
        """Returns everything recorded."""
        return Outcome(
            trace=trace,
            cluster=cluster,
            policy=policy,
            nodes=tuple(node.name for node in self._table.nodes),
            job=np.array(self._job, dtype=np.int32),
            begin=np.array(self._begin, dtype=np.int64),
            end=np.array(self._end, dtype=np.int64),
            cause=np.array(self._cause, dtype=np.int8),
            seats=np.array(self._seats, dtype=np.int64),
            row=np.array(self._row, dtype=np.int32),
            amount=np.array(self._amount, dtype=np.int32),
            by_node=np.array([milli_units(node.capacity, self._unit) for node in self._table.nodes], dtype=np.int64),
            unit=self._unit,
            left_out=left_out,
        )
