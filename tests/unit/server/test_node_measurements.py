"""Measurements of nodes: of this machine by /proc and NVML, and of a cluster's nodes by the reports of ranks."""

import math
from pathlib import Path
from types import SimpleNamespace

import pytest

from windlass.server.telemetry_records.machine_gauge import GpuReader, cpu_use, read_cpu_times, read_used_memory
from windlass.server.telemetry_records.node_measurements import (
    GpuMeasurement,
    NodeMeasurement,
    node_frames,
    nodes_of_ranks,
)
from windlass.telemetry.metric_table import metric_of

NOW = 1_700_000_000_000


class NVMLError(Exception):
    """As pynvml's."""


def handle(index: int) -> int:
    if index == 2:
        raise NVMLError("GPU is lost")
    return index


DRIVER = SimpleNamespace(
    NVMLError=NVMLError,
    nvmlInit=lambda: None,
    nvmlDeviceGetCount=lambda: 3,
    nvmlDeviceGetHandleByIndex=handle,
    nvmlDeviceGetUUID=lambda gpu: f"GPU-{gpu}",
    nvmlDeviceGetUtilizationRates=lambda _gpu: SimpleNamespace(gpu=75),
    nvmlDeviceGetMemoryInfo=lambda _gpu: SimpleNamespace(used=3 << 30),
    nvmlDeviceGetTemperature=lambda gpu, _sensor: 60 + gpu,
    nvmlDeviceGetRemappedRows=lambda gpu: (0, gpu, 0, gpu),
)
"""The functions of pynvml that the reader calls: a good GPU, one with a failed repair, and a lost one."""


def values_of(node: NodeMeasurement) -> dict[str, list[float]]:
    (frame,) = node_frames({"n1": node}, NOW)
    assert frame.scope == "node/n1"
    return {name: vector.tolist() for name, vector in frame.values.items()}


def test_gpus_are_read_by_uuid_and_a_lost_one_is_missing():
    found = GpuReader(lambda: DRIVER).read()  # type: ignore[arg-type, return-value]  # it answers like the module
    assert found == {
        "GPU-0": GpuMeasurement(0.75, float(3 << 30), 60, is_healthy=True),
        "GPU-1": GpuMeasurement(0.75, float(3 << 30), 61, is_healthy=False),
    }


def test_a_machine_without_a_driver_has_no_gpus():
    assert GpuReader(lambda: None).read() == {}


def test_a_frame_of_a_node_sums_its_gpus_and_has_a_value_for_each():
    gpus = [GpuMeasurement(0.5, 1e9, 50, is_healthy=True), GpuMeasurement(is_healthy=False)]
    values = values_of(NodeMeasurement(0.25, 8e9, gpus, names_gpus=True))
    assert values["windlass_node_cpu_utilization_ratio"] == [0.25]
    assert values["windlass_node_gpu_utilization_ratio"] == [0.5]
    assert values["windlass_node_gpu_memory_used_bytes"] == [1e9]
    assert values["windlass_node_gpu_temperature_celsius"] == [50]
    assert values["windlass_node_unhealthy_gpus"] == [1]
    assert values["windlass_gpu_healthy"] == [1, 0]
    assert math.isnan(values["windlass_gpu_utilization_ratio"][1])
    assert all(metric_of(name) for name in values)


def test_nodes_of_a_cluster_have_what_their_ranks_report():
    ranks = [
        {"node": "a", "values": {"gpu_utilisation": 1.0, "gpu_memory": 2e9, "gpu_temperature": 70.0}},
        {"node": "a", "values": {"gpu_utilisation": 0.5, "gpu_memory": 1e9, "gpu_temperature": math.nan}},
        {"node": "b", "values": {"loss": 0.5}},
        {"node": "c", "values": {"node_cpu": 0.25, "node_memory": 8e9}},
        {"node": "", "values": {"gpu_utilisation": 0.5}},
    ]
    found = nodes_of_ranks(ranks)
    assert sorted(found) == ["a", "c"]
    assert values_of(found["c"]) == {
        "windlass_node_cpu_utilization_ratio": [0.25],
        "windlass_node_memory_used_bytes": [8e9],
    }
    assert values_of(found["a"]) == {
        "windlass_node_gpu_utilization_ratio": [0.75],
        "windlass_node_gpu_memory_used_bytes": [3e9],
        "windlass_node_gpu_temperature_celsius": [70],
    }


def test_a_node_without_values_has_no_frame():
    assert not list(node_frames({"n1": NodeMeasurement()}, NOW))


def test_cpu_and_memory_of_the_machine_are_those_of_proc(tmp_path: Path):
    (tmp_path / "stat").write_text("cpu  100 0 100 700 100 0 0 0 0 0\ncpu0 1\n")
    before = read_cpu_times(tmp_path)
    (tmp_path / "stat").write_text("cpu  160 0 140 1400 300 0 0 0 0 0\ncpu0 1\n")
    assert cpu_use(before, read_cpu_times(tmp_path)) == pytest.approx(0.1)
    assert cpu_use(before, before) is None
    (tmp_path / "meminfo").write_text("MemTotal: 1000 kB\nMemFree: 10 kB\nMemAvailable: 600 kB\n")
    assert read_used_memory(tmp_path) == 400 * 1024


def test_a_machine_without_proc_has_neither(tmp_path: Path):
    assert read_cpu_times(tmp_path) is None
    assert cpu_use(None, (1, 2)) is None
    assert read_used_memory(tmp_path) is None
    (tmp_path / "stat").write_text("cpu many\n")
    assert read_cpu_times(tmp_path) is None
