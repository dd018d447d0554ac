"""The shipped traces: equal to the output of their generator, and runnable."""

from __future__ import annotations

from collections.abc import Coroutine
from typing import Any

import make_traces
import pytest

from windlass.backends.simulator import measure, read_faults, read_nodes, read_trace, replay, simulate
from windlass.backends.simulator.backend import SimulatorBackend
from windlass.controller.controller import Controller, run
from windlass.core.model.policy import Policy

FOLDER = make_traces.FOLDER


@pytest.mark.parametrize("name", make_traces.files())
def test_a_shipped_file_equals_the_output_of_the_generator(name: str) -> None:
    assert (FOLDER / name).read_bytes() == make_traces.files()[name]


@pytest.mark.parametrize("name", ["small", "daily"])
def test_a_trace_runs_to_its_end_on_its_cluster(name: str) -> None:
    (path,) = FOLDER.glob(f"{name}.jsonl*")
    trace = read_trace(path)
    found = measure(replay(trace, read_nodes(str(FOLDER / f"{name}.yaml")), Policy()))
    assert found.everything.jobs == len(trace.jobs)
    assert 0.7 < found.offered_load < 1.3


def test_the_list_of_faults_applies_to_the_small_cluster() -> None:
    def run_controller(backend: SimulatorBackend) -> Coroutine[Any, Any, None]:
        return run(Controller(backend.recover(), backend.finished), backend, on_trouble=pytest.fail)

    cluster = read_nodes(str(FOLDER / "small.yaml"))
    faults = read_faults(str(FOLDER / "faults.jsonl"), [node.name for node in cluster.nodes])
    outcome = simulate(read_trace(FOLDER / "small.jsonl"), cluster, Policy(), run_controller, faults=faults)
    assert outcome.left_out == {}
    assert outcome.runs.max() > 1  # a job was restarted
