"""Metrics of one rank: at most once a second, and with values of the GPU's driver."""

from types import SimpleNamespace

import torch

from windlass.train.telemetry.gpu_gauge import GpuGauge, read_gpu
from windlass.train.telemetry.node_gauge import NodeGauge
from windlass.train.telemetry.phase_timers import PhaseTimers
from windlass.train.telemetry.rank_metrics import RankMetrics

CPU = torch.device("cpu")


def test_a_rank_reports_step_and_wait_time_at_most_once_a_second():
    clock = [0.0]
    phases = PhaseTimers(CPU, lambda _: None)
    own = RankMetrics(phases, CPU, lambda: clock[0])
    printed = []
    for _ in range(4):
        clock[0] += 0.5
        phases._spent["agree"] += 100.0
        phases._spent["forward"] += 350.0
        phases._spent["backward"] += 40.0
        printed.append(own.count())
    assert printed == [False, True, False, True]
    assert (own.values["rank_step_ms"], own.values["rank_wait_ms"], own.values["rank_busy_ms"]) == (500, 100, 400)
    assert own.values["rank_last_backward_ms"] == 40
    assert own.values["rank_memory"] > 2**20
    assert (own.values["rank_total_ms"], own.values["rank_total_agree_ms"]) == (1500, 300)


def test_the_first_rank_of_a_node_measures_its_cpu_and_memory(tmp_path, monkeypatch):
    monkeypatch.setenv("LOCAL_RANK", "0")
    (tmp_path / "meminfo").write_text("MemTotal: 1000 kB\nMemAvailable: 600 kB\n")
    (tmp_path / "stat").write_text("cpu  100 0 100 700 100 0 0 0 0 0\n")
    gauge = NodeGauge(tmp_path)
    (tmp_path / "stat").write_text("cpu  160 0 140 1400 300 0 0 0 0 0\n")
    assert gauge.values() == {"node_cpu": 0.1, "node_memory": 400 * 1024}
    monkeypatch.setenv("LOCAL_RANK", "1")
    assert NodeGauge(tmp_path).values() == {}
    monkeypatch.delenv("LOCAL_RANK")
    assert NodeGauge(tmp_path / "missing").values() == {}


def test_a_gauge_without_a_gpu_has_no_values():
    gauge = GpuGauge(CPU)
    assert gauge.values() == {}
    gauge.close()


def test_driver_values_are_a_fraction_and_bytes():
    driver = SimpleNamespace(
        nvmlDeviceGetUtilizationRates=lambda _: SimpleNamespace(gpu=97),
        nvmlDeviceGetMemoryInfo=lambda _: SimpleNamespace(used=2**30),
        nvmlDeviceGetCurrentClocksThrottleReasons=lambda _: 0x40,
        nvmlDeviceGetClockInfo=lambda _gpu, _kind: 900,
        nvmlDeviceGetMaxClockInfo=lambda _gpu, _kind: 1980,
        NVML_CLOCK_SM=1,
        nvmlDeviceGetTemperature=lambda _gpu, _kind: 61,
        NVML_TEMPERATURE_GPU=0,
    )
    clocks = {"gpu_temperature": 61, "gpu_sm_clock": 900, "gpu_max_sm_clock": 1980, "gpu_slowdown": 1}
    assert read_gpu(driver, "a gpu") == {"gpu_utilisation": 0.97, "gpu_memory": 2**30, **clocks}


def test_a_driver_without_clocks_reports_the_rest():
    class HiddenError(Exception):
        pass

    def hide(_gpu):
        raise HiddenError

    driver = SimpleNamespace(
        nvmlDeviceGetUtilizationRates=lambda _: SimpleNamespace(gpu=50),
        nvmlDeviceGetMemoryInfo=lambda _: SimpleNamespace(used=1),
        nvmlDeviceGetCurrentClocksThrottleReasons=hide,
        nvmlDeviceGetTemperature=lambda *_: hide(None),
        NVML_TEMPERATURE_GPU=0,
        NVMLError=HiddenError,
    )
    assert read_gpu(driver, "a slice") == {"gpu_utilisation": 0.5, "gpu_memory": 1}
