"""The what-if simulation: live jobs as a trace, changes that are checked, and a process that gives a result."""

import asyncio
import json
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from windlass.core.ledger import Ledger
from windlass.core.lifecycle.transitions import create_state
from windlass.core.model.gang import PendingGang, RunningGang, pending_of
from windlass.core.model.job import Job, Role
from windlass.core.model.node import Node
from windlass.core.model.queue import Queue
from windlass.core.model.snapshot import Snapshot
from windlass.core.model.status import Placement
from windlass.jobs.cluster import snapshot_file
from windlass.server.dashboard.simulation import Simulation, read_changes
from windlass.server.dashboard.simulation_trace import cluster_of_snapshot, trace_of
from windlass.server.errors import ApiError

HOUR = 3_600_000


def waiting(number: int, hours: int | None) -> PendingGang:
    job = Job("wait", (Role(replicas=2, resources={"gpu": 4}),), walltime=hours and hours * HOUR)
    return pending_of(create_state(f"wait-{number}", number, job, 0))


def live() -> Snapshot:
    nodes = [Node(name, {"gpu": 4, "cpu": 8_000}) for name in ("a", "b")]
    ledger = Ledger([*nodes, Node("c", {"gpu": 4}, cordoned="fan")], [Queue("default")])
    demands = waiting(1, 1).demands
    ledger.hold(RunningGang("run-1", 1, "default", 0, demands, Placement({"worker": ("a", "b")}), 0, 5 * HOUR))
    for gang in (waiting(2, None), waiting(3, 2)):
        ledger.add_pending(gang)
    return ledger.snapshot()


def test_running_jobs_have_the_rest_of_their_time_and_others_follow_in_queue_order() -> None:
    trace = trace_of(live(), ("wait-3", "wait-2"), 3 * HOUR, HOUR)
    assert [(job.id, job.duration // HOUR, job.walltime and job.walltime // HOUR) for job in trace.jobs] == [
        ("run-1", 2, 2), ("wait-3", 2, 2), ("wait-2", 1, None),
    ]  # fmt: skip
    assert [job.submit for job in trace.jobs] == [0, 1, 2]
    assert (trace.jobs[1].gpus, trace.jobs[1].replicas) == (4, 2)


def test_a_job_before_its_begin_time_is_submitted_at_that_time() -> None:
    ledger = Ledger.at(live())
    ledger.add_pending(replace(waiting(2, None), begin=4 * HOUR))
    trace = trace_of(ledger.snapshot(), ("wait-3",), 3 * HOUR, HOUR)
    assert [(job.id, job.submit) for job in trace.jobs] == [("run-1", 0), ("wait-3", 1), ("wait-2", HOUR + 2)]


def test_nodes_are_added_or_left_out_and_unusable_ones_do_not_count() -> None:
    assert [node.name for node in cluster_of_snapshot(live(), 2).nodes] == ["a", "b", "added-1", "added-2"]
    assert [node.name for node in cluster_of_snapshot(live(), -1).nodes] == ["a"]
    assert cluster_of_snapshot(live(), -9).nodes == ()


@pytest.mark.parametrize(
    ("body", "text"),
    [
        ({"policies": 3}, "policies is a text"),
        ({"extra_nodes": "2"}, "extra_nodes is a whole number"),
        ({"unlimited_hours": 0}, "unlimited_hours is a whole number from 1"),
        ({"synthetic": "x" * 501}, "synthetic is a text of at most"),
    ],
)
def test_changes_are_checked(body: dict[str, Any], text: str) -> None:
    with pytest.raises(ApiError, match=text):
        read_changes(body)


def simulate(body: dict[str, Any], *worker: str) -> dict[str, Any]:
    async def snapshot(*, planned: bool) -> dict[str, Any]:
        assert not planned
        return snapshot_file.to_plain(snapshot_file.SnapshotRecord(live(), 3 * HOUR))

    async def run() -> dict[str, Any]:
        controller = SimpleNamespace(plan=SimpleNamespace(order=("wait-3", "wait-2")))
        simulation = Simulation(SimpleNamespace(snapshot=snapshot), controller, *([worker] if worker else []))
        assert (await simulation.start(body))["is_running"]
        with pytest.raises(ApiError, match="runs already"):
            await simulation.start(body)
        await simulation._task
        return simulation.state() | {"page": simulation.report_page()}

    return asyncio.run(run())


def test_the_live_jobs_are_simulated_under_each_policy() -> None:
    found = simulate({"policies": "cluster,fifo"})
    assert (found["error"], found["progress"]) == ("", 1.0)
    assert [policy["name"] for policy in found["result"]["policies"]] == ["cluster", "fifo"]
    assert found["result"]["jobs"] == 3
    assert found["page"].startswith("<!doctype html>")
    assert "page" not in found["result"]
    titles = [figure["title"] for figure in found["result"]["figures"]]
    assert "Makespan" in titles
    assert "Offered load" not in titles  # live jobs arrive together: no load is offered over a time
    assert "while they arrive" not in " ".join(found["result"]["summary"])


def test_random_jobs_arrive_over_a_time_and_offer_a_load() -> None:
    found = simulate({"synthetic": "jobs=20 load=0.5"})
    assert found["error"] == ""
    load = next(figure for figure in found["result"]["figures"] if figure["title"] == "Offered load")
    assert 0.1 < load["mean"][0] < 3
    assert "of the cluster's capacity while they arrive." in found["result"]["summary"][0]


def test_an_invalid_policy_is_the_error_of_the_simulation() -> None:
    found = simulate({"policies": "nonsense"})
    assert found["result"] is None
    assert "nonsense" in found["error"]


def test_a_process_without_a_result_is_an_error(tmp_path: Path) -> None:
    silent = tmp_path / "silent.py"
    silent.write_text(
        f"import sys; sys.stdin.readline(); print({json.dumps(json.dumps({'progress': 0.5}))}); sys.exit(9)"
    )
    found = simulate({}, str(silent))
    assert found["error"] == "its process ended with 9: simulate fewer jobs or nodes"
