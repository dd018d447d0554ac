"""Phases that a rank reports to its agent besides those it times: device waits, exchanges of numbers, compilations."""

import pytest
import torch
import torch.distributed as dist
from torch._C import _distributed_c10d

from windlass import wire
from windlass.train.telemetry import heartbeat
from windlass.train.telemetry.compile_marks import CompileMarks
from windlass.train.telemetry.heartbeat import HeartbeatSender
from windlass.train.telemetry.phase_timers import PhaseTimers

CPU, GPU = torch.device("cpu"), torch.device("cuda")


@pytest.mark.parametrize(("device", "entered"), [(GPU, ["device", "outside"]), (CPU, [])])
def test_a_wait_for_a_gpu_is_a_phase(device, entered):
    phases = []
    with PhaseTimers(device, phases.append).reporting("device"):
        pass
    assert phases == entered


def test_an_exchange_outside_of_the_step_consensus_is_reported_and_not_timed():
    phases = []
    timers = PhaseTimers(CPU, phases.append)
    with timers.during("evaluate"), timers.reporting("agree"):
        assert phases == ["evaluate", "agree"]
    assert phases == ["evaluate", "agree", "evaluate", "outside"]
    assert timers.totals()["agree"] == 0.0


def test_each_compilation_is_marked_within_its_phase():
    phases, marks = [], []
    timers = PhaseTimers(CPU, phases.append, marks.append)
    callbacks = CompileMarks(timers)
    compiled = torch.compile(lambda x: x + 1, backend="eager", dynamic=False)
    callbacks.register()
    callbacks.register()
    try:
        with timers.during("forward"):
            compiled(torch.ones(2))
        assert marks == ["compile", "forward"]
        compiled(torch.ones(2))
        assert marks == ["compile", "forward"]
        compiled(torch.ones(3))
        assert marks == ["compile", "forward", "compile", "outside"]
    finally:
        callbacks.remove()
    compiled(torch.ones(4))
    assert len(marks) == 4


def test_a_mark_counts_no_heartbeat_and_each_step_counts_from_one(monkeypatch):
    written = []
    monkeypatch.setattr(HeartbeatSender, "_send", lambda _, message: written.append(message))
    rank = HeartbeatSender(0, {})
    rank.beat("forward")
    rank.mark("compile")
    rank.mark("forward")
    rank.beat("backward")
    rank.step = 1
    rank.beat("forward")
    assert [(each.step, each.phase, each.beat) for each in written] == [
        (0, "forward", 1),
        (0, "compile", 1),
        (0, "forward", 1),
        (0, "backward", 2),
        (1, "forward", 1),
    ]


@pytest.mark.parametrize(
    ("backend", "files"),
    [
        ("nccl", {"gloo_trace_rank_3": b"gloo", "nccl_trace_rank_3": b"nccl"}),
        ("gloo", {"gloo_trace_rank_3": b"gloo"}),
    ],
)
def test_flight_records_are_written_of_nccl_where_it_is_used(monkeypatch, tmp_path, backend, files):
    monkeypatch.setattr(dist, "is_initialized", lambda: True)
    monkeypatch.setattr(dist, "get_backend", lambda: backend)
    monkeypatch.setattr(_distributed_c10d, "_dump_fr_trace", lambda: b"gloo")
    monkeypatch.setattr(_distributed_c10d, "_dump_nccl_trace", lambda: b"nccl", raising=False)
    heartbeat._write_flight_record(tmp_path / "dumps", 3)
    assert {each.name: each.read_bytes() for each in (tmp_path / "dumps").iterdir()} == files


def test_torch_without_nccl_writes_the_other_record(monkeypatch, tmp_path):
    monkeypatch.setattr(dist, "is_initialized", lambda: True)
    monkeypatch.setattr(dist, "get_backend", lambda: "nccl")
    monkeypatch.setattr(_distributed_c10d, "_dump_fr_trace", lambda: b"gloo")
    monkeypatch.delattr(_distributed_c10d, "_dump_nccl_trace", raising=False)
    heartbeat._write_flight_record(tmp_path, 0)
    assert [each.name for each in tmp_path.iterdir()] == ["gloo_trace_rank_0"]


def test_phases_are_those_of_the_contract():
    assert {"join", "outside", "compile"} <= wire.OPEN_PHASES
    assert {"agree"} == wire.COMMUNICATION_PHASES
