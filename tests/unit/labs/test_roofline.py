"""The measurement of the roofline: its model, and its kernels on small data."""

import numpy as np
import pytest

from windlass.labs import roofline
from windlass.labs.roofline import Kernel, Roofline, best_seconds, product_kernel, report

MACHINE = Roofline(flops=100e9, bandwidth=20e9)


@pytest.fixture(autouse=True)
def small(monkeypatch):
    monkeypatch.setattr(roofline, "WIDTH", 64)
    monkeypatch.setattr(roofline, "VECTOR", 1001)


def test_memory_bounds_a_kernel_left_of_the_ridge_point_and_arithmetic_one_right_of_it():
    assert MACHINE.ridge == 5
    assert (MACHINE.bound(0.5), MACHINE.bound(5), MACHINE.bound(300)) == (10e9, 100e9, 100e9)


def test_the_intensity_of_a_product_grows_with_its_columns():
    assert product_kernel(1).intensity == pytest.approx(0.5, rel=0.05)
    assert product_kernel(64).intensity == pytest.approx(2 * 64**3 / (3 * 4 * 64**2))


def test_a_kernel_computes_the_product():
    multiply = product_kernel(8).compute
    matrix, other = multiply.args
    assert np.allclose(multiply(), matrix @ other)


def test_the_best_round_counts_and_the_first_call_does_not(monkeypatch):
    clock = iter([0, 9, 10, 12, 20, 25, 30, 33, 40, 48])
    monkeypatch.setattr(roofline.time, "perf_counter", lambda: next(clock))
    calls = []
    assert best_seconds(lambda: calls.append(1)) == 2
    assert len(calls) == roofline.ROUNDS + 1


def test_a_report_names_the_limit_of_each_kernel():
    kernels = [Kernel("copy", 1, 10, lambda: None), Kernel("product", 1000, 10, lambda: None)]
    lines = list(report(2, MACHINE, kernels, [1e9, 90e9]))
    assert lines[3].split() == ["ridge", "point", "5.0", "FLOP/byte"]
    assert [line.split()[-1] for line in lines[-2:]] == ["memory", "arithmetic"]


def test_the_program_prints_its_table(capsys):
    roofline.main()
    assert len(capsys.readouterr().out.splitlines()) == 6 + 1 + len(roofline.COLUMNS)
