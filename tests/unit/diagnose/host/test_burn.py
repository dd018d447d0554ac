"""Load tests: the verdict over measurements, the disk and numpy loads, and the answers of workers."""

from __future__ import annotations

import errno

import pytest

from windlass.diagnose.host.burn import disk_load
from windlass.diagnose.host.burn.burn_in import _read_answer
from windlass.diagnose.host.burn.disk_load import measure_disk
from windlass.diagnose.host.burn.measurement import Measurement, decode, encode, judge_measurements
from windlass.diagnose.host.burn.numpy_load import measure_copies, measure_products
from windlass.diagnose.host.burn.worker import run_test
from windlass.diagnose.steps import State


def products(*figures: float, **changed: object) -> list[Measurement]:
    found = [Measurement("matmul", f"cuda:{index}", figure, "TFLOP/s") for index, figure in enumerate(figures)]
    return [*found, Measurement("matmul", "cuda:x", figures[0], "TFLOP/s", **changed)] if changed else found


@pytest.mark.parametrize(
    ("found", "state", "text"),
    [
        (products(700, 710, 705), State.OK, "median 705 TFLOP/s of 3 devices"),
        (products(700, 710, 500), State.WARNING, "cuda:2 below 85% of the median 700 TFLOP/s"),
        (products(700, 710, mismatches=1), State.WRONG, "wrong results without an error"),
        (products(700, 710, failure="out of memory"), State.WRONG, "failed on 1 of 3"),
        (products(700), State.OK, "cuda:0: 700 TFLOP/s"),
        (products(1, failure="no torch", is_possible=False), State.ABSENT, "no torch"),
    ],
)
def test_devices_are_compared_with_their_median(found, state, text):
    (step,) = judge_measurements(found)
    assert (step.name, step.state, step.text) == ("burn.matmul", state, text)


def test_the_cpu_computes_and_copies_the_same_bits():
    for measured in (measure_products("cpu", 0.0), measure_copies("cpu", 0.0)):
        assert measured.mismatches == 0
        assert measured.figure > 0
        assert decode(encode(measured)) == measured


def test_a_disk_is_written_and_read(tmp_path):
    found = measure_disk(str(tmp_path), 0.0)
    assert (found.test, found.mismatches, found.failure) == (f"disk:{tmp_path}", 0, "")
    assert found.figure > 0
    assert not [*tmp_path.iterdir()]


def test_a_disk_that_returns_other_bytes_is_found(tmp_path, monkeypatch):
    monkeypatch.setattr(disk_load.os, "read", lambda _descriptor, count: bytes(count))
    (step,) = judge_measurements([measure_disk(str(tmp_path), 0.0)])
    assert (step.state, step.evidence) == (State.WRONG, (f"{tmp_path}: 1 wrong results",))


def test_a_full_disk_is_a_result_and_no_crash(tmp_path, monkeypatch):
    def refuse(*_arguments):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(disk_load.os, "write", refuse)
    found = run_test("disk", str(tmp_path), 0.0, ())
    assert (found.test, found.failure) == (f"disk:{tmp_path}", "OSError: [Errno 28] No space left on device")


@pytest.mark.parametrize("out", [b"", b"no json\n", b"[1]\n", b'{"x": 1}\n', b"\xff\n"])
def test_a_worker_without_an_answer_failed(out):
    found = _read_answer(out, b"Traceback\nCUDA error: ECC\n", -6, Measurement("memory", "cuda:3"))
    assert (found.device, found.failure) == ("cuda:3", "exit code -6: CUDA error: ECC")
