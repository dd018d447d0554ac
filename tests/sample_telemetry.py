"""Frames of a sample cluster that have every metric of the table: for tests of what reads them."""

from __future__ import annotations

from typing import Any

from windlass.core.cycle.scheduler import schedule
from windlass.core.ledger import Ledger
from windlass.core.lifecycle.transitions import create_state
from windlass.core.model.gang import Demand, PendingGang, shape_of, start_gang
from windlass.core.model.job import Job, Role
from windlass.core.model.node import Node
from windlass.core.model.queue import Queue
from windlass.core.model.snapshot import Snapshot
from windlass.server.telemetry_records.measurements import cluster_frame, job_frame, queue_frames
from windlass.server.telemetry_records.node_measurements import GpuMeasurement, NodeMeasurement, node_frames
from windlass.telemetry.frames import MetricFrame

NOW = 1_700_000_000_000
MEASURED = {
    "loss": 0.5,
    "step_ms": 200.0,
    "forward_ms": 50.0,
    "backward_ms": 100.0,
    "samples_per_second": 640.0,
    "utilisation": 0.4,
    "rank_step_ms": 200.0,
    "rank_wait_ms": 20.0,
    "rank_memory": 3e9,
    "gpu_utilisation": 0.9,
    "gpu_memory": 4e9,
    "gpu_sm_clock": 1_400.0,
    "gpu_temperature": 61.0,
}
"""Measurements of a rank, by the names of its reports."""


def sample_frames(*, jobs: int = 1, ranks: int = 4, step: int = 10) -> list[MetricFrame]:
    """Frames of a cluster with two queues and running jobs. The last rank is slow."""
    nodes = [Node(f"n{number}", {"gpu": 8, "cpu": 96_000, "memory": 512 << 30}) for number in range(4)]
    states = [create_state(f"team/digits-{number}", number, _job(ranks), NOW - 60_000) for number in range(jobs)]
    snapshot = _borrowing_cluster(nodes)
    seen = [_rank(number, step, slow=number == ranks - 1) for number in range(ranks)]
    gpu = GpuMeasurement(0.9, 4e9, 61.0, is_healthy=True)
    node = NodeMeasurement(0.5, 64e9, [gpu] * 8, names_gpus=True)
    return [
        *node_frames({"n0": node}, NOW),
        cluster_frame(snapshot, states, {"WaitingForQuota": 1}, NOW),
        *queue_frames(snapshot, states, NOW),
        *(job_frame(state, seen, NOW) for state in states),
    ]


def _borrowing_cluster(nodes: list[Node]) -> Snapshot:
    """A cluster in which the queue `research` holds twice its quota, which `vision` lends."""
    root = Queue("all", {"gpu": 0})
    ledger = Ledger(
        nodes, [root, Queue("research", {"gpu": 8}, parent="all"), Queue("vision", {"gpu": 24}, parent="all")]
    )
    asked = (Demand("worker", 16, {"gpu": 1}),)
    gang = PendingGang("team/big", 1, "research", 0, 1, asked, shape_of("research", asked))
    ledger.add_pending(gang)
    (admission,) = schedule(ledger.snapshot(), 0).admissions
    ledger.hold(start_gang(gang, admission.placement, 0))
    ledger.remove_pending(gang.id)
    return ledger.snapshot()


def _job(ranks: int) -> Job:
    return Job("digits", (Role("worker", ranks, {"gpu": 1}, ("python", "train.py")),), queue="research")


def _rank(number: int, step: int, *, slow: bool) -> dict[str, Any]:
    values = {**MEASURED, "checkpoint_at": NOW - 90_000, "rank_busy_ms": 180.0 if slow else 100.0}
    values |= {"rank_total_ms": 2_000.0, "rank_total_backward_ms": 200.0 if slow else 1_000.0}
    about = {"rank": number, "node": f"n{number // 8}", "pid": 1, "printed_at": NOW}
    return {
        **about,
        "step": step,
        "phase": "forward",
        "at": NOW,
        "values": values,
        "reported_step": 10,
        "reported_at": NOW,
    }
