"""Faults drawn from rates or read from a list, and their effect on a running job."""

from __future__ import annotations

from collections.abc import Coroutine
from pathlib import Path
from typing import Any

import pytest

from windlass.backends.simulator import (
    Costs,
    Outcome,
    SimulationError,
    Trace,
    TraceJob,
    cluster_of,
    read_faults,
    simulate,
)
from windlass.backends.simulator.backend import SimulatorBackend
from windlass.backends.simulator.faults import Fault, FaultKind, FaultRate, draw_faults
from windlass.backends.simulator.outcome import EndCause
from windlass.backends.simulator.script import Delays
from windlass.controller.controller import Controller, run
from windlass.core.model.policy import Policy

S = 1000
HOUR = 3_600_000


def run_controller(backend: SimulatorBackend) -> Coroutine[Any, Any, None]:
    return run(Controller(backend.recover(), backend.finished), backend, on_trouble=pytest.fail)


def run_with_faults(*faults: Fault, nodes: int = 1, gpus: int = 8, costs: Costs | None = None, **more) -> Outcome:
    """Simulates a job of 100 s on `gpus` GPUs, submitted at 0 s, with these faults."""
    trace = Trace("one", "synthetic", (TraceJob("t-1", 0, 100 * S, gpus=gpus, replicas=None),))
    return simulate(trace, cluster_of(nodes), Policy(), run_controller, faults=faults, costs=costs, **more)


def runs(outcome: Outcome) -> list[tuple[int, int, EndCause]]:
    times = zip(outcome.begin // S, outcome.end // S, outcome.cause, strict=True)
    return [(int(begin), int(end), EndCause(cause)) for begin, end, cause in times]


def test_a_dead_node_loses_unsaved_work_and_the_job_restarts_when_it_has_recovered() -> None:
    failure = Fault(50 * S, FaultKind.NODE, "n1", until=80 * S)
    assert runs(run_with_faults(failure)) == [(0, 50, EndCause.LOST), (80, 180, EndCause.FINISHED)]
    costs = Costs(restart=5 * S, checkpoint_every=20 * S, checkpoint=1 * S)
    # two checkpoints (at 20 and 41 s) hold 40 s of work; then 5 s to restart, 60 s of work, two more checkpoints
    assert runs(run_with_faults(failure, costs=costs)) == [(0, 50, EndCause.LOST), (80, 147, EndCause.FINISHED)]


def test_a_gang_restarts_on_another_node_if_one_is_free() -> None:
    failure = Fault(50 * S, FaultKind.NODE, "n1", until=1000 * S)
    outcome = run_with_faults(failure, nodes=2)
    assert runs(outcome) == [(0, 50, EndCause.LOST), (50, 150, EndCause.FINISHED)]
    assert [outcome.nodes[row] for row in outcome.row] == ["n1", "n2"]


def test_a_node_failure_is_detected_after_the_delay() -> None:
    failure = Fault(50 * S, FaultKind.NODE, "n1", until=60 * S)
    outcome = run_with_faults(failure, nodes=2, delays=Delays(detect=30 * S))
    assert runs(outcome) == [(0, 80, EndCause.LOST), (80, 180, EndCause.FINISHED)]


def test_a_node_that_is_unreachable_within_the_grace_keeps_its_gang() -> None:
    cut = Fault(50 * S, FaultKind.UNREACHABLE, "n1", until=60 * S)
    assert runs(run_with_faults(cut, nodes=2)) == [(0, 100, EndCause.FINISHED)]


def test_an_end_on_an_unreachable_node_is_reported_when_it_is_reachable_again() -> None:
    cut = Fault(50 * S, FaultKind.UNREACHABLE, "n1", until=160 * S)
    assert runs(run_with_faults(cut, nodes=2)) == [(0, 160, EndCause.FINISHED)]


def test_a_node_that_is_unreachable_beyond_the_grace_is_lost() -> None:
    cut = Fault(50 * S, FaultKind.UNREACHABLE, "n1", until=900 * S)
    # stopped at 350 s; gone at 900 s, when the node is reachable again: its work was done, but not reported
    (start, end, _), second = runs(run_with_faults(cut, nodes=2))
    assert (start, end, second) == (0, 900, (900, 900, EndCause.FINISHED))


def test_a_killed_rank_restarts_the_gang_on_its_nodes_and_a_failed_gpu_elsewhere() -> None:
    for kind, second in ((FaultKind.RANK, "n1"), (FaultKind.GPU, "n2")):
        outcome = run_with_faults(Fault(30 * S, kind, "n1", until=500 * S), nodes=2)
        assert runs(outcome)[1][2] is EndCause.FINISHED
        assert outcome.nodes[outcome.row[-1]] == second


def test_a_slow_node_slows_down_the_whole_gang() -> None:
    slow = Fault(20 * S, FaultKind.SLOW, "n2", until=60 * S, speed=500)
    assert runs(run_with_faults(slow, nodes=2, gpus=16)) == [(0, 120, EndCause.FINISHED)]


def test_a_reclaimed_node_closes_at_its_notice_and_dies_after_it() -> None:
    taken = Fault(20 * S, FaultKind.RECLAIM, "n1", until=200 * S, notice=30 * S)
    assert runs(run_with_faults(taken, nodes=2)) == [(0, 50, EndCause.LOST), (50, 150, EndCause.FINISHED)]


def test_a_vanished_gang_is_detected() -> None:
    vanished = Fault(40 * S, FaultKind.GANG, "n1")
    assert runs(run_with_faults(vanished)) == [
        (0, 40, EndCause.LOST),
        (40, 140, EndCause.FINISHED),
    ]


def test_faults_follow_their_rates_and_equal_seeds_give_equal_faults() -> None:
    nodes = [f"n{n}" for n in range(50)]
    rates = {FaultKind.NODE: FaultRate(100 * HOUR, 2 * HOUR), FaultKind.SLOW: FaultRate(50 * HOUR, HOUR)}
    found = draw_faults(nodes, rates, 1000 * HOUR, seed=3)
    assert found == draw_faults(nodes, rates, 1000 * HOUR, seed=3) != draw_faults(nodes, rates, 1000 * HOUR, seed=4)
    deaths = [fault for fault in found if fault.kind is FaultKind.NODE]
    assert len(deaths) == pytest.approx(50 * 1000 / 102, rel=0.15)
    assert sum(fault.until - fault.at for fault in deaths) / len(deaths) == pytest.approx(2 * HOUR, rel=0.15)
    assert list(found) == sorted(found, key=lambda fault: fault.at)


def test_a_list_of_faults_is_read_and_its_errors_name_the_row(tmp_path: Path) -> None:
    path = tmp_path / "faults.jsonl"
    path.write_text('{"at": 9000, "kind": "rank", "node": "n1"}\n{"at":10,"kind":"node","node":"n1","until":20}\n')
    assert read_faults(str(path), ["n1"]) == (
        Fault(10, FaultKind.NODE, "n1", until=20),
        Fault(9000, FaultKind.RANK, "n1"),
    )
    for bad, message in (
        ('{"at": 1, "kind": "flood", "node": "n1"}', "row 1: no fault: Invalid enum value 'flood'"),
        ('{"at": 1, "kind": "node", "node": "n9", "until": 2}', "row 1: the cluster has no node n9"),
        ('{"at": 5, "kind": "node", "node": "n1", "until": 5}', "row 1: until is 5: the fault must last beyond"),
    ):
        path.write_text(bad)
        with pytest.raises(SimulationError, match=message):
            read_faults(str(path), ["n1"])
